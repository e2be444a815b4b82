"""Which file systems are refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from tenure.backends.sqlite.mounts import is_network, mount_of, refuse_mount
from tenure.errors import UsageError

MOUNTS = r"""22 1 254:0 / / rw,relatime - ext4 /dev/vda rw
30 22 0:30 / /mnt/shared\040disk rw - nfs4 server:/export rw
31 30 0:31 / /mnt/shared\040disk/local rw shared:5 master:2 - xfs /dev/vdb rw
32 22 0:32 / /data rw - ext4 /dev/vdc rw
33 32 0:33 / /data rw - fuse.sshfs host:/home rw
34 22 0:34 / /datas rw - tmpfs none rw
broken line
"""


@pytest.mark.parametrize(
    ("path", "file_system"),
    [
        ("/var/store.db", "ext4"),
        ("/mnt/shared disk/store.db", "nfs4"),
        ("/mnt/shared disk/local/store.db", "xfs"),
        ("/mnt/shared disk/localized/store.db", "nfs4"),
        ("/mnt/store.db", "ext4"),
        ("/data/x/store.db", "fuse.sshfs"),
        ("/datas/x/store.db", "tmpfs"),
    ],
)
def test_the_longest_mount_point_decides_and_the_last_of_equals(path: str, file_system: str) -> None:
    mount = mount_of(Path(path), MOUNTS)
    assert mount is not None
    assert mount.file_system == file_system


def test_network_file_systems() -> None:
    for name in ("nfs", "nfs4", "cifs", "smb3", "9p", "fuse.sshfs", "fuse.s3fs", "ceph", "lustre"):
        assert is_network(name)
    for name in ("virtiofs", "vboxsf", "vmhgfs", "fuse.vmhgfs-fuse", "fuse.moosefs", "fuse.mfs"):
        assert is_network(name)
    for name in ("fuse.lizardfs", "fuse.seaweedfs", "fuse.cubefs"):
        assert is_network(name)
    for name in ("ext4", "xfs", "btrfs", "tmpfs", "overlay", "fuse.ext4", "nfsd", "fuseblk", "zfs"):
        assert not is_network(name)


def test_a_network_file_system_is_refused_by_name(tmp_path: Path) -> None:
    mountinfo = tmp_path / "mountinfo"
    mountinfo.write_text(MOUNTS)
    refuse_mount(Path("/var/store.db"), mountinfo=mountinfo)
    refuse_mount(Path("/data/x"), mountinfo=tmp_path / "none")
    with pytest.raises(UsageError, match=r"/data/x/store\.db lies on the network file system 'fuse\.sshfs'"):
        refuse_mount(Path("/data/x/store.db"), mountinfo=mountinfo)


def test_a_mount_of_the_file_alone_is_refused_with_the_fix(tmp_path: Path) -> None:
    mountinfo = tmp_path / "mountinfo"
    mountinfo.write_text(MOUNTS + "35 22 254:0 /srv/ha.db /mounted/ha.db rw,relatime - ext4 /dev/vda rw\n")
    refuse_mount(Path("/mounted/other.db"), mountinfo=mountinfo)
    with pytest.raises(UsageError, match=r"/mounted/ha\.db is mounted as a file.*; mount the directory .*at /mounted$"):
        refuse_mount(Path("/mounted/ha.db"), mountinfo=mountinfo)
