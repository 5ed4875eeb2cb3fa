"""The job `plan`: what a recipe needs on hardware that is not here."""
