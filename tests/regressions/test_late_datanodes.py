"""The DataNode of the HDFS for tests is slower than its NameNode, and the server never counted as started.

The NameNode keeps the name of a file to which nothing could be written. The next look found that name taken, and so did
each look after it. So a look replaces what an earlier one left.
"""

from __future__ import annotations

from pathlib import Path

from tests.draw import QUARTERS, only_if_drawn
from tests.kit.servers import Hdfs
from tests.kit.servers.programs import installed

pytestmark = only_if_drawn(QUARTERS[0])


def test_a_datanode_that_comes_after_the_first_look_is_found(tmp_path: Path) -> None:
    with installed():
        servers = Hdfs(tmp_path / "hdfs")
    name_node, data_node = servers.nodes
    try:
        name_node.start()
        servers.wait_for(0)
        assert not servers.answers(1)
        data_node.start()
        servers.wait_for(1)
    finally:
        servers.close()
