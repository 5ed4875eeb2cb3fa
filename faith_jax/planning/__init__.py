"""The job `plan`: what a recipe needs on hardware that you do not have."""
