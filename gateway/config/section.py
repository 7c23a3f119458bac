"""What every section of the configuration has in common."""

from typing import Annotated

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from routing.policies import policy_named


def _canonical(policy: str) -> str:
    return policy_named(policy).name


PolicyName = Annotated[str, AfterValidator(_canonical)]
Seconds = Annotated[float, Field(gt=0)]


class Section(BaseModel):
    """A group of settings; a key that it does not know is refused."""

    model_config = ConfigDict(extra="forbid", frozen=True)
