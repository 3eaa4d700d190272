"""Every document by name, for `real2gym schema`."""

from backend.documents.comparison import Comparison
from backend.documents.demonstration import Demonstration
from backend.documents.diagnosis import Diagnosis
from backend.documents.motion import Motion
from backend.documents.observations import Observations
from backend.documents.run import RunRecord
from backend.documents.verdict import Criteria, Rollout, Verdict
from mjcf_export.document import Document
from mjcf_export.scene import Scene

DOCUMENTS: dict[str, type[Document]] = {
    document.__name__: document
    for document in (
        Demonstration,
        Observations,
        Scene,
        Motion,
        Diagnosis,
        Criteria,
        Rollout,
        Verdict,
        Comparison,
        RunRecord,
    )  # fmt: skip
}
