"""What is weak in how a changed pipeline is told from the one that its scope has run."""

from __future__ import annotations

from typing import Final

from tests.mutants.mutant import Change, Mutant, on

RULES = "declarations/rules.py"
STORE = "declarations/store.py"
SHAPE = "spark/state_shape.py"
EXPRESSIONS = "spark/expressions.py"
PLANS = "spark/plans.py"
EVALUATIONS = "spark/evaluations.py"
DECLARE = "driver/declare_streams.py"
ZONES = "spark/time_zone.py"
USERS = "tests/regressions/test_zones_of_users.py::"
TWICE = "tests/spark/test_evaluations.py::"
ALL = ("memory", "sqlite", "zookeeper", "etcd")
ANOTHER = "tests/regressions/test_another_pipeline.py::"
ALIKE = "tests/spark/test_state_shape.py::test_two_declarations_in_two_processes_are_read_alike"
JUDGED = "tests/unit/declarations/test_rules.py::"
MOVED = "rundirs/moved_files.py"
SPARKS = "tests/unit/agent/test_newer_spark.py::"
SWAPPED = "tests/regressions/test_swapped_sources.py::"

OF_DECLARATIONS: Final = (
    Mutant(
        "renamed-stream-runs",
        "a stream that is declared no more is forgotten, and another one begins at the start of its sources",
        (
            Change(
                RULES,
                "    gone = {name for name in known if name in checkpointed and name not in declared.streams}\n",
                "    gone: set[str] = set()\n",
            ),
        ),
        (
            ANOTHER + "test_a_renamed_stream_is_refused_before_it_leads",
            JUDGED + "test_each_of_the_two_flags_of_a_renamed_stream_is_needed",
        ),
    ),
    Mutant(
        "runs-on-the-state-of-another",
        "what decides the state of a query is not compared",
        (Change(RULES, "other_state=now.shape not in (one.shape, of.shape),", "other_state=False,"),),
        (
            ANOTHER + "test_a_sum_does_not_go_on_with_the_state_of_a_count",
            JUDGED + "test_a_dropped_stream_that_comes_back_goes_on_with_the_state_that_it_had",
        ),
    ),
    Mutant(
        "allowed-and-not-recorded",
        "what an operator has allowed is not written down",
        (
            Change(
                RULES,
                "        record=replace(\n            declared,\n",
                "        record=recorded or replace(\n            declared,\n",
            ),
        ),
        (
            ANOTHER + "test_what_an_operator_allows_runs_and_no_restart_needs_the_flags",
            JUDGED + "test_what_was_allowed_is_recorded_and_needs_no_flag_any_more",
        ),
    ),
    Mutant(
        "judged-only-before-it-leads",
        "what another member has recorded meanwhile is not looked at, and nothing is recorded",
        (Change("driver/spark_driver.py", "        self._declarations.record(term, declared_now)\n", ""),),
        (
            "tests/spark/test_driver.py::test_what_may_not_be_run_by_now_is_not_started",
            ANOTHER + "test_a_sum_does_not_go_on_with_the_state_of_a_count",
        ),
    ),
    Mutant(
        "what-python-has-cached",
        "a pipeline file is what Python has compiled of one with its size and time",
        (
            Change(
                "pipelines/loading.py",
                "        exec(_compiled(source, path), vars(module))\n",
                "        spec.loader.exec_module(module)\n",
            ),
        ),
        (
            ANOTHER + "test_a_file_with_the_size_and_the_time_of_the_one_before_is_the_one_that_runs",
            "tests/unit/pipelines/test_loading.py::test_what_is_loaded_is_what_stands_in_the_file",
        ),
    ),
    Mutant(
        "recorded-without-a-term",
        "whoever believes to lead records what it runs",
        (
            Change(
                STORE,
                "        commit_under(self._store, term, writes=(put,), clock=self._clock)\n",
                "        self._store.commit(self._scope, guards=(), writes=(put,))\n",
            ),
        ),
        on("tests/unit/declarations/test_store.py::test_a_leader_whose_term_is_over_records_nothing", *ALL),
    ),
    Mutant(
        "windows-by-name",
        "a window is known by its column's name alone, whatever its length",
        (Change(SHAPE, '"windows": windows.behind(keys)', '"windows": []'),),
        ("tests/spark/test_state_shape.py::test_whatever_decides_it_makes_a_difference",),
    ),
    Mutant(
        "lambda-variables-by-name",
        "a variable of a lambda function is known by its name, in which Spark's Python counts",
        (
            Change(
                EXPRESSIONS,
                'variables.setdefault(node["exprId"]["id"], len(variables))\n',
                'variables.setdefault(node["exprId"]["id"], node["name"])\n',
            ),
        ),
        (ALIKE, ANOTHER + "test_a_file_that_is_as_it_was_is_run_again[lambda]"),
    ),
    Mutant(
        "seeds-are-compared",
        "the seed of a sketch, which is another one in each declaration, is a part of what decides its state",
        (Change(EXPRESSIONS, 'case "Literal" if position in seeds or not values:', 'case "Literal" if not values:'),),
        (ALIKE,),
    ),
    Mutant(
        "bytes-by-address",
        "bytes in an expression are known by what Java prints for them",
        (Change(PLANS, "    if _BYTES in text:\n", "    if False:\n"),),
        (ALIKE, ANOTHER + "test_a_file_that_is_as_it_was_is_run_again[bytes]"),
    ),
    Mutant(
        "all-that-is-declared-is-kept",
        "what Spark leaves out of a state, as nothing takes it, and in which order it keeps the rest, is not looked at",
        (Change(SHAPE, '"kept": kept.operators}', '"kept": []}'),),
        (
            "tests/spark/test_state_shape.py::test_whatever_decides_it_makes_a_difference",
            ANOTHER + "test_a_projection_above_aggregates_does_not_give_the_state_of_one_to_another",
        ),
    ),
    Mutant(
        "shape-of-the-hour",
        "the time at which a query is declared is a part of what its streams are joined by",
        (
            Change(
                SHAPE,
                "        self._values = not any(_NOW.match(kind) for _, data in declared for kind in _kinds(data))\n",
                "        self._values = True\n",
            ),
        ),
        (ALIKE,),
    ),
    Mutant(
        "allowed-is-as-good-as-run",
        "a query whose change was allowed is taken for the other one, though it has planned nothing since",
        (Change(RULES, "declared.streams, _unrun(resumed, newest))\n", "declared.streams, {})\n"),),
        (
            ANOTHER + "test_a_change_that_spark_refuses_is_undone_without_a_flag",
            JUDGED + "test_a_change_that_has_run_nothing_is_undone_without_a_flag",
            JUDGED + "test_of_two_changes_that_have_run_nothing_the_state_is_the_first_ones",
        ),
    ),
    Mutant(
        "sources-by-position",
        "the sources of a query are known by their position alone",
        (Change("declarations/rules.py", "    if not was or not now:\n", "    if True:\n"),),
        (
            SWAPPED + "test_a_swapped_union_is_refused_and_a_flag_lets_no_folder_go_on_as_another",
            SWAPPED + "test_a_source_of_python_runs_again_and_with_another_feed_only_with_a_flag",
            JUDGED + "test_a_source_in_the_place_of_another_needs_a_flag_and_is_recorded_then",
        ),
    ),
    Mutant(
        "a-source-is-its-format",
        "what a source reads is not a part of what it is known by",
        (
            Change(
                "spark/source_plans.py",
                "            options[name] = str(qualified)\n",
                "            options[name] = '/'\n",
            ),
        ),
        (
            SWAPPED + "test_a_swapped_union_is_refused_and_a_flag_lets_no_folder_go_on_as_another",
            "tests/spark/test_source_plans.py::test_the_kinds_and_the_words_of_sources",
        ),
    ),
    Mutant(
        "kafka-by-its-looks",
        "a source whose offset is a map of maps of numbers is taken for Kafka",
        (
            Change(
                "spark/source_plans.py",
                "    kafka = is_kafka(leaf)\n",
                "    kafka = True\n",
            ),
        ),
        (
            SWAPPED + "test_a_source_of_python_runs_again_and_with_another_feed_only_with_a_flag",
            "tests/spark/test_source_plans.py::test_the_kinds_and_the_words_of_sources",
        ),
    ),
    Mutant(
        "moved-files-are-believed",
        "files at another path are taken for those of the log, whatever they are",
        (Change(MOVED, '            if changed != entry["timestamp"]:\n', "            if False:\n"),),
        ("tests/unit/rundirs/test_moved_files.py::test_the_newest_files_are_compared_by_their_times",),
    ),
    Mutant(
        "swapped-folders-have-moved",
        "folders that changed their places are taken for moved ones, where files have the same names and times",
        (Change(MOVED, "        if other != folder and its.old == move.new:\n", "        if False:\n"),),
        (
            SWAPPED + "test_a_swapped_union_is_refused_and_a_flag_lets_no_folder_go_on_as_another",
            "tests/unit/rundirs/test_moved_files.py::test_folders_that_were_swapped_have_not_moved",
        ),
    ),
    Mutant(
        "a-batch-without-data-is-refused",
        "a seed of Spark 3.5 keeps which columns are never null, and a takeover whose first batch has no data fails",
        (
            Change(
                "rundirs/state_copy.py",
                "        if is_of_spark_3(self._point.offsets):\n            self._target.copy",
                "        if False:\n            self._target.copy",
            ),
        ),
        ("tests/unit/rundirs/test_state_copy.py::test_a_batch_without_data_may_be_the_first_of_a_takeover",),
    ),
    Mutant(
        "the-words-of-an-interval-count",
        "the gap of a session is compared as text, which Spark 3.5 writes anew: a newer Spark is another query",
        (
            Change(
                "spark/releases.py",
                '"value": interval(node["value"])}',
                '"value": node["value"]}',
            ),
        ),
        ("tests/unit/spark/test_releases.py::test_the_gap_of_a_session_is_alike_in_all_releases",),
    ),
    Mutant(
        "a-mirror-trips-over-its-own-copy",
        "what a copy left that failed stays in the place of the next copy, and the mirror never goes on",
        (Change("rundirs/mirrored.py", "        if path in self.begun:\n", "        if False:\n"),),
        ("tests/unit/rundirs/test_state_copy.py::test_one_that_met_an_error_of_the_storage_goes_on",),
    ),
    Mutant(
        "a-mirror-begins-anew",
        "each error of the storage costs a standby all that it has copied: a large state is never mirrored",
        (
            Change(
                "takeover/mirror.py",
                "            self._report(mirror, error)\n        except Exception",
                "            self._discard(mirror)\n            self._report(mirror, error)\n        except Exception",
            ),
        ),
        ("tests/unit/takeover/test_mirror.py::test_an_error_of_the_storage_costs_nothing_that_was_copied",),
    ),
    Mutant(
        "moved-files-are-new",
        "the log of a source whose files moved keeps the old paths",
        (
            Change(
                "rundirs/state_copy.py",
                "data if move is None else moved_entry(text, move).encode())",
                "data)",
            ),
        ),
        (SWAPPED + "test_a_folder_that_was_moved_goes_on_with_a_flag_also_in_a_batch_in_flight",),
    ),
    Mutant(
        "run-is-undone-without-a-flag",
        "a query goes back to what it was before, on the state of what it has been since",
        (Change(RULES, "if newest[name] < one.epoch}", "if one.epoch}"),),
        (
            "tests/cli/test_changed_pipelines.py::test_a_changed_query_that_is_allowed_needs_no_flag_again",
            "tests/unit/driver/test_declarations.py::test_a_change_that_planned_nothing_is_undone_without_a_flag",
            JUDGED + "test_a_change_that_has_run_is_undone_by_a_flag",
        ),
    ),
    Mutant(
        "state-of-another-evaluation",
        "a query over state that is not deterministic runs, and nobody has allowed it",
        (Change(DECLARE, "        _check_evaluations(stream)\n", ""),),
        (
            "tests/regressions/test_not_twice_the_same.py::test_a_query_that_is_not_deterministic_is_refused_by_one_line",
        ),
    ),
    Mutant(
        "clock-is-the-batchs",
        "the functions that read the clock at each evaluation are taken for the time of the batch",
        (Change(EVALUATIONS, "{*_clocks(read(plan)), *_samples(nodes)", "{*_samples(nodes)"),),
        (TWICE + "test_what_may_differ_below_the_state_is_named[the clock]",),
    ),
    Mutant(
        "tables-stand-still",
        "nobody writes to a table beside a stream",
        (Change(EVALUATIONS, ", *_tables(nodes)}", "}"),),
        (
            TWICE + "test_what_may_differ_below_the_state_is_named[a table]",
            TWICE + "test_what_is_allowed_by_name_is_not_refused",
        ),
    ),
    Mutant(
        "zone-of-the-host",
        "a member computes in the time zone of its own host, whatever the scope's is",
        (Change(ZONES, "or _of_files(spark) or kept\n", "or _of_files(spark)\n"),),
        (
            USERS + "test_a_scope_keeps_the_zone_of_its_first_host",
            USERS + "test_a_scope_of_an_older_version_goes_on_in_utc",
        ),
    ),
    Mutant(
        "zone-may-change",
        "the time zone in which a scope has run is not compared with the one that is set",
        (Change("driver/declarations.py", "if was not in (None, zone) and", "if False and"),),
        (
            "tests/unit/driver/test_declarations.py::"
            "test_another_time_zone_is_refused_until_it_is_allowed_and_is_recorded_then",
        ),
    ),
    Mutant(
        "our-defaults-first",
        "a default of ours goes before the files of the user's Spark",
        (Change("spark/session.py", "        if not yours.contains(setting):\n", "        if True:\n"),),
        (
            "tests/spark/test_local_files.py::test_a_hosts_own_defaults_go_before_ours_and_a_members_settings_before_both",
        ),
    ),
    Mutant(
        "older-spark-leads",
        "a member goes on with what a newer release of Spark has written",
        (
            Change(
                "driver/declarations.py",
                "        check_spark(self._scope, recorded.declaration, epochs, spark=spark)\n",
                "",
            ),
        ),
        ("tests/unit/driver/test_declarations.py::test_a_scope_goes_on_with_a_newer_spark_and_not_back",),
    ),
    Mutant(
        "older-spark-contends",
        "a member takes an office that it cannot keep, as its Spark is too old",
        (Change("agent/member.py", "                newer.look(records, spark=self._driver.spark)\n", ""),),
        (
            SPARKS + "test_a_standby_ends_as_soon_as_a_newer_spark_has_planned",
            SPARKS + "test_an_empty_office_stays_empty_beside_a_member_that_could_not_keep_it",
        ),
    ),
    Mutant(
        "newer-spark-counts-at-once",
        "a release of Spark that planned nothing keeps the members of the release before from the office",
        (
            Change(
                "declarations/sparks.py",
                "if before is None or max(epochs) >= before.epoch else",
                "if before is None or epochs else",
            ),
        ),
        (
            SPARKS + "test_a_newer_spark_that_planned_nothing_costs_no_member",
            "tests/unit/driver/test_declarations.py::test_a_newer_spark_that_planned_nothing_is_undone",
        ),
    ),
    Mutant(
        "a-declaration-that-hangs-keeps-the-term",
        "a call of the user's that hangs before the first batch is no stall, and the leader keeps its term for ever",
        (Change("driver/spark_driver.py", "_DECLARES if self._declares_long() else None", "None"),),
        ("tests/spark/test_driver.py::test_a_declaration_at_a_grant_that_takes_long_makes_no_progress_until_it_ends",),
    ),
    Mutant(
        "a-declaration-of-minutes-is-a-stall",
        "a declaration that always takes longer than the stall timeout ends each term, and nobody leads",
        (Change("driver/spark_driver.py", "> _LONG * self._first_took_s", "> 0"),),
        ("tests/spark/test_driver.py::test_a_declaration_at_a_grant_may_take_as_long_as_the_first_lets_expect",),
    ),
)
