"""How the soak looks after its members: who leads, what an end means, and when it is right that one ends loudly."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from tests.kit.members import MemberProcess
from tests.soak.checks import check_calls, late_calls
from tests.soak.journal import Journal, happens
from tests.soak.ledger import Call, Calls, Entry, Ledger
from tests.soak.plan import Moment, Plan, Query
from tests.soak.scene import Scene, StuckError
from tests.soak.slots import Slot

QUERIES = (Query("passed", "ledger", "shown"), Query("counts", "delta", "left"), Query("unique", "delta", "delete"))


class MadeUp(MemberProcess):
    """A member that is no process."""

    code: int | None = None
    words: str = ""

    @property
    def running(self) -> bool:
        return self.code is None

    @property
    def exit_code(self) -> int | None:
        return self.code

    def driver(self) -> int | None:
        return 1

    def output(self) -> str:
        return self.words

    def start(self) -> None: ...

    def kill(self) -> None: ...


class MadeUpScene(Scene):
    """A scene of such members."""

    def process(self, name: str, folder: Path, arguments: Any) -> MemberProcess:
        return MadeUp(name, folder=folder, arguments=arguments)

    def ends(self, name: str, code: int, words: str = "") -> None:
        member = self.slots[name].member
        assert isinstance(member, MadeUp)
        member.code, member.words = code, words


@pytest.fixture
def scene(tmp_path: Path) -> MadeUpScene:
    made = MadeUpScene(tmp_path / "run", Plan(seed=0, queries=QUERIES), environment={})
    made.__enter__()
    made.start("anna")
    made.start("ben")
    return made


def tell(scene: Scene, member: str, kind: str, **fields: object) -> None:
    log = scene.slots[member].member.event_log
    with log.open("a") as file:
        file.write(json.dumps({"event": kind, **fields}) + "\n")
    scene.journal.read()


def test_a_line_that_is_being_written_is_read_when_it_is_whole(tmp_path: Path) -> None:
    journal, log = Journal(), tmp_path / "log"
    journal.follow("anna", log)
    journal.read()
    log.write_text('{"event": "A"}\n{"event": "B", "epo')
    journal.read()
    assert [event.kind for event in journal.events] == ["A"]
    with log.open("a") as file:
        file.write('ch": 3}\n')
    journal.read()
    journal.read()
    assert [(event.kind, event.member) for event in journal.events] == [("A", "anna"), ("B", "anna")]
    assert journal.events[1].fields["epoch"] == 3


def test_a_moment_is_that_of_its_query(scene: MadeUpScene) -> None:
    tell(scene, "anna", "BatchStarted", query="one", batch=0)
    tell(scene, "anna", "TermWon", epoch=1)
    batch, won = scene.journal.events
    assert happens(Moment("batch"), batch, query="one")
    assert not happens(Moment("batch"), batch, query="two")
    assert happens(Moment("grant"), won, query="two")
    assert not happens(Moment("now"), won, query="one")


def test_who_leads(scene: MadeUpScene) -> None:
    assert scene.leader() is None
    tell(scene, "anna", "TermWon", epoch=1)
    assert scene.leader() is scene.slots["anna"]
    tell(scene, "ben", "TermWon", epoch=2)
    assert scene.leader() is scene.slots["ben"], "the newer one, whatever the older one knows"
    tell(scene, "ben", "TermEnded", epoch=2)
    tell(scene, "anna", "TermEnded", epoch=1)
    assert scene.leader() is None
    tell(scene, "anna", "TermWon", epoch=3)
    scene.slots["anna"].struck = len(scene.journal.events)
    assert scene.leader() is None, "what it was before it was struck counts no more"


def test_who_could_take_over(scene: MadeUpScene) -> None:
    slot = scene.slots["ben"]
    assert not slot.able(scene.journal)
    tell(scene, "ben", "DriverStarted")
    tell(scene, "ben", "MemberReady")
    assert slot.able(scene.journal)
    slot.paused = True
    assert not slot.able(scene.journal)
    slot.paused = False
    tell(scene, "ben", "DriverEnded", again_s=3.0)
    assert not slot.able(scene.journal)
    assert slot.was_ready(scene.journal)


def test_a_member_that_was_made_to_end_is_started_again(scene: MadeUpScene) -> None:
    before = scene.slots["ben"]
    before.expect.add(-9)
    scene.ends("ben", -9)
    scene.look_after()
    assert scene.slots["ben"] is not before
    assert scene.findings == []


def test_one_that_shall_stay_down_does(scene: MadeUpScene) -> None:
    before = scene.slots["ben"]
    before.expect.add(0)
    before.stay_down = True
    scene.ends("ben", 0)
    scene.look_after()
    assert scene.slots["ben"] is before
    before.stay_down = False
    scene.look_after()
    assert scene.slots["ben"] is not before


def test_one_that_ends_by_itself_is_a_finding(scene: MadeUpScene) -> None:
    scene.ends("ben", 1, "a line\ntenure: error: it is broken; mend it\nanother line")
    scene.look_after()
    assert [(one.kind, one.text) for one in scene.findings] == [
        ("ended", "ben ended by itself with exit code 1: tenure: error: it is broken; mend it")
    ]
    assert scene.slots["ben"].running, "the run goes on, to see what else is wrong"


def test_a_run_whose_members_end_and_end_is_over(scene: MadeUpScene) -> None:
    for _ in range(3):
        scene.ends("ben", 7)
        scene.look_after()
    scene.ends("ben", 7)
    with pytest.raises(StuckError):
        scene.look_after()


def gone(scene: Scene, query: Query) -> str:
    return (
        f"tenure: error: 1 file is gone, the first is file:{scene.folder}/input/{query.name}/a/000000.json; put it back"
    )


def test_an_end_because_a_file_was_moved_is_right_and_the_file_is_put_back(scene: MadeUpScene) -> None:
    scene.inputs[0].release("a")
    scene.inputs[0].move_away({"a": 21})
    scene.ends("ben", 5, gone(scene, QUERIES[0]))
    scene.look_after()
    assert scene.findings == []
    assert len(scene.loud) == 1
    assert (scene.folder / "input" / QUERIES[0].name / "a" / "000000.json").exists()
    scene.ends("anna", 5, gone(scene, QUERIES[0]))
    scene.look_after()
    assert scene.findings == [], "it may have looked before that"


@pytest.mark.parametrize("code", [1, 6, 9])
def test_only_a_loud_word_about_files_is_right(scene: MadeUpScene, code: int) -> None:
    scene.ends("ben", code, gone(scene, QUERIES[0]))
    scene.look_after()
    assert [one.kind for one in scene.findings] == ["ended"]


def test_nobody_may_miss_a_file_that_nobody_moved(scene: MadeUpScene) -> None:
    scene.ends("ben", 5, gone(scene, QUERIES[1]))
    scene.look_after()
    assert [one.kind for one in scene.findings] == ["ended"]


def test_who_misses_files_again_and_again_is_a_finding(scene: MadeUpScene) -> None:
    for _ in range(3):
        scene.ends("ben", 5, gone(scene, QUERIES[2]))
        scene.look_after()
    assert scene.findings == []
    scene.ends("ben", 5, gone(scene, QUERIES[2]))
    scene.look_after()
    assert [one.kind for one in scene.findings] == ["ended"]


def test_a_batch_between_them_makes_it_another_matter(scene: MadeUpScene) -> None:
    for _ in range(5):
        scene.ends("ben", 5, gone(scene, QUERIES[2]))
        scene.look_after()
        tell(scene, "anna", "BatchCommitted", query="unique_delta_delete", batch=1, epoch=1)
    assert scene.findings == []


def test_an_end_by_idleness_is_none_by_itself(scene: MadeUpScene) -> None:
    scene.slots["ben"].until_idle = True
    scene.ends("ben", 0)
    scene.ends("anna", 0)
    scene.look_after()
    assert [one.text[:4] for one in scene.findings] == ["anna"]


def test_a_wrong_output_is_told(scene: MadeUpScene) -> None:
    for inputs in scene.inputs:
        for source in inputs.sources:
            inputs.release(source)
    assert set(scene.wrong()) == {query.name for query in QUERIES}
    ledger = Ledger(scene.folder / "output" / QUERIES[0].name)
    ledger.put(Entry("soak", "q", 0, 1, [[i] for i in range(20)]))
    assert scene.wrong()[QUERIES[0].name] == "1 lost: (20)"
    ledger.put(Entry("soak", "q", 1, 1, [[20]]))
    assert QUERIES[0].name not in scene.wrong()
    ledger.put(Entry("soak", "q", 2, 1, [[20]]))
    assert scene.wrong()[QUERIES[0].name] == "1 surplus: (20)"


def test_a_function_that_is_called_for_a_batch_that_was_done_is_a_finding(scene: MadeUpScene) -> None:
    output = scene.folder / "output" / QUERIES[0].name
    calls, ledger = Calls(output), Ledger(output)
    ledger.put(Entry("soak", "q", 0, 1, []))
    calls.note(Call(1, 0, -1, "", -1))
    scene.note_done()
    calls.note(Call(2, 1, 1, "", -1))
    check_calls(scene)
    assert scene.findings == []
    calls.note(Call(2, 0, 1, "", -1))
    check_calls(scene)
    assert [one.kind for one in scene.findings] == ["again"]
    assert late_calls(scene) == 0
    calls.note(Call(1, 1, 2, "", -1))
    assert late_calls(scene) == 1


def test_spark_has_noted_a_batch_where_its_file_is(scene: MadeUpScene) -> None:
    assert not scene.noted()
    for query in QUERIES:
        run = f"runs/{query.name}/e00000001-anna-0123456789ab"
        folder = scene.folder / "storage" / "soak" / run
        (folder / "offsets").mkdir(parents=True)
        (folder / "commits").mkdir()
        (folder / "offsets" / "0").touch()
        tell(scene, "anna", "QueryStarted", epoch=1, query=query.name, run_directory=run)
        assert not scene.noted()
        (folder / "commits" / "0").touch()
        tell(scene, "anna", "BatchCommitted", query=query.name, batch=0, epoch=1)
    assert scene.noted()
    assert scene.noted_by(scene.journal.events)
    (scene.folder / "storage" / "soak" / run / "offsets" / "1").touch()
    assert not scene.noted()


def test_a_slot_says_the_last_line_of_the_error(tmp_path: Path) -> None:
    member = MadeUp("ben", folder=tmp_path, arguments=())
    slot = Slot("ben", member, since=0)
    assert slot.last_words() == ""
    member.words = "first\n\nsecond\n"
    assert slot.last_words() == "second"


def test_a_member_gets_folders_of_its_own_run(scene: MadeUpScene) -> None:
    environment = scene.environment()
    assert environment["TMPDIR"].startswith(str(scene.folder))
    assert os.path.isdir(environment["TMPDIR"])
