from tests.scoring.judges.models import models  # noqa: F401
