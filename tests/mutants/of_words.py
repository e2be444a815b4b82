"""What is weak in the words for people and in what they can see: passwords that are shown."""

from __future__ import annotations

from typing import Final

from tests.mutants.mutant import Change, Mutant

JOBS = "tests/regressions/test_jobs_as_they_were.py::"
STARTS = "tests/regressions/test_starts_of_spark.py::"
OPEN = "tests/regressions/test_passwords_in_the_open.py::"

OF_WORDS: Final = (
    Mutant(
        "errors-with-passwords",
        "an error shows the password of a URL that it cites",
        (
            Change(
                "wording.py", 'found = masked(_FRAMES.sub("", _STACK.sub("", text)))', 'found = _FRAMES.sub("", text)'
            ),
        ),
        (OPEN + "test_errors_events_and_lines", OPEN + "test_a_storage_error_that_cites_a_request"),
    ),
    Mutant(
        "events-with-passwords",
        "an event shows the password of a URL that it cites",
        (Change("event.py", "(shown := masked(text)) != text", "(shown := text) != text"),),
        (OPEN + "test_errors_events_and_lines",),
    ),
    Mutant(
        "drivers-with-the-password",
        "the JVM and the code of the pipeline have the password of the store in their environment",
        (Change("agent/child.py", "if name != OF_STORE_PASSWORD}", "}"),),
        (OPEN + "test_a_driver_gets_it_with_the_settings_alone",),
    ),
    Mutant(
        "secrets-on-the-command-line",
        "a setting of Spark with a secret is on the command line of the JVM",
        (Change("spark/session.py", "elif is_secret(setting) and setting not in submitted:", "elif not setting:"),),
        (OPEN + "test_settings_with_secrets_are_not_on_the_command_line_of_the_jvm",),
    ),
    Mutant(
        "listeners-of-rehearsals",
        "a listener hears the events of each query of the session",
        (Change("driver/listening.py", "if event.name in self._names:", "if event.name:"),),
        ("tests/spark/test_listening.py::test_each_event_once_and_none_of_a_rehearsal",),
    ),
    Mutant(
        "listeners-for-ever",
        "a listener stays when the queries of the term have ended",
        (Change("driver/listening.py", "spark.streams.removeListener(one)", "one.ended.clear()"),),
        ("tests/spark/test_listening.py::test_each_event_once_and_none_of_a_rehearsal",),
    ),
    Mutant(
        "listeners-in-the-function",
        "a listener that the pipeline's function adds hears each event twice",
        (Change("driver/declare_streams.py", "if own_listeners(spark):", "if own_listeners(spark) < 0:"),),
        (JOBS + "test_a_listener_that_the_function_adds_is_refused",),
    ),
    Mutant(
        "a-session-of-the-file",
        "a file that makes a session at its top level starts a JVM without the settings of the member",
        (Change("spark/session_first.py", 'replaced(SparkContext, "__init__", stop), ', ""),),
        (JOBS + "test_a_job_with_its_columns_functions_and_listener",),
    ),
    Mutant(
        "always-with-maven",
        "a package whose POM lies without its jar in Maven's cache can never be fetched",
        (Change("spark/fetching.py", "return start([*arguments, *way])", "return start([*arguments])"),),
        (STARTS + "test_a_package_that_is_nowhere_is_asked_for_once_in_each_way",),
    ),
    Mutant(
        "one-try-at-a-repository",
        "a repository that refuses for a moment is asked once",
        (Change("spark/fetching.py", "                    ways.append(way)\n", "                    pass\n"),),
        (STARTS + "test_a_repository_that_refuses_is_asked_again_and_the_member_may_start_again",),
    ),
    Mutant(
        "killed-early-for-good",
        "a JVM that was killed before Python reached it ends a member for good",
        (Change("spark/not_started.py", "code is not None and (code < 0 or code > 128)", "code is None"),),
        (STARTS + "test_why",),
    ),
)
