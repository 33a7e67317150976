"""Workflows in files: a definition with its name."""

from hivemem_contracts.agents.workflows.definition import WorkflowDefinition
from hivemem_contracts.identifiers import Id


class WorkflowFile(WorkflowDefinition):
    """A document of a file."""

    name: Id

    @property
    def definition(self) -> WorkflowDefinition:
        """The definition, as it is stored."""
        return WorkflowDefinition.model_validate(self.model_dump(exclude={"name"}, exclude_unset=True))
