"""All mutants, those of the layers above the stores first."""

from __future__ import annotations

from tests.mutants.mutant import Mutant
from tests.mutants.of_commits import OF_DOUBT, OF_FENCE
from tests.mutants.of_connectors import OF_CONNECTORS
from tests.mutants.of_databases import OF_DATABASES
from tests.mutants.of_declarations import OF_DECLARATIONS
from tests.mutants.of_doctor import OF_DOCTOR
from tests.mutants.of_edges import OF_EDGES
from tests.mutants.of_embedded import OF_EMBEDDED
from tests.mutants.of_ends import OF_ENDS
from tests.mutants.of_failures import OF_FAILURES
from tests.mutants.of_figures import OF_FIGURES
from tests.mutants.of_files import OF_FILES
from tests.mutants.of_followers import OF_NEWS
from tests.mutants.of_handles import OF_CHECKPOINTS, OF_HANDLES
from tests.mutants.of_history import OF_HISTORY
from tests.mutants.of_iceberg import OF_ICEBERG
from tests.mutants.of_kafka import OF_KAFKA
from tests.mutants.of_kafka_sink import OF_KAFKA_SINK
from tests.mutants.of_kept import OF_KEPT
from tests.mutants.of_kubernetes import OF_KUBERNETES
from tests.mutants.of_links import OF_LINKS
from tests.mutants.of_moves import OF_MOVES
from tests.mutants.of_mysql import OF_MYSQL
from tests.mutants.of_owners import OF_OWNERS
from tests.mutants.of_pages import OF_PAGES
from tests.mutants.of_postgres import OF_POSTGRES, OF_SQL
from tests.mutants.of_puts import OF_PUTS
from tests.mutants.of_removals import OF_REMOVALS
from tests.mutants.of_resumptions import OF_RESUMPTIONS
from tests.mutants.of_s3_store import OF_S3_STORE
from tests.mutants.of_services import OF_SERVICES
from tests.mutants.of_storage import OF_STORAGE
from tests.mutants.of_stores import OF_STORES
from tests.mutants.of_sweeps import OF_SWEEPS
from tests.mutants.of_upserts import OF_UPSERTS
from tests.mutants.of_wardens import OF_WARDENS
from tests.mutants.of_words import OF_WORDS

MUTANTS: tuple[Mutant, ...] = (
    *OF_FENCE,
    *OF_DOUBT,
    *OF_HANDLES,
    *OF_HISTORY,
    *OF_FIGURES,
    *OF_FILES,
    *OF_ICEBERG,
    *OF_PAGES,
    *OF_CHECKPOINTS,
    *OF_KEPT,
    *OF_EDGES,
    *OF_ENDS,
    *OF_FAILURES,
    *OF_DECLARATIONS,
    *OF_SWEEPS,
    *OF_REMOVALS,
    *OF_RESUMPTIONS,
    *OF_SERVICES,
    *OF_UPSERTS,
    *OF_OWNERS,
    *OF_MOVES,
    *OF_POSTGRES,
    *OF_SQL,
    *OF_MYSQL,
    *OF_DATABASES,
    *OF_KAFKA,
    *OF_KAFKA_SINK,
    *OF_STORAGE,
    *OF_CONNECTORS,
    *OF_PUTS,
    *OF_EMBEDDED,
    *OF_STORES,
    *OF_NEWS,
    *OF_WORDS,
    *OF_LINKS,
    *OF_KUBERNETES,
    *OF_S3_STORE,
    *OF_WARDENS,
    *OF_DOCTOR,
)
