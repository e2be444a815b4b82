"""What is weak in the packages, classes and settings that Spark gets for a source or a storage."""

from __future__ import annotations

from typing import Final

from tests.mutants.mutant import Change, Mutant, on

CONNECTORS = "tests/unit/spark/test_connectors.py::"
MISSING = "tests/spark/test_missing_classes.py::"
CLASSES = "tests/spark/test_hadoop.py::"

OF_CONNECTORS: Final = (
    Mutant(
        "connectors-replace-packages",
        "packages that the user names by a setting are not fetched, as the flag of the connectors replaces them",
        (Change("spark/connectors.py", "+ list(settings)", ""),),
        (CONNECTORS + "test_packages_of_the_users_own_stay_wherever_they_stand",),
    ),
    Mutant(
        "connectors-go-before-packages",
        "two versions of a package are asked for, and the user's own may lose",
        (Change("spark/connectors.py", " if module_of(one) not in named]", "]"),),
        (CONNECTORS + "test_a_package_of_the_users_own_goes_before_that_of_a_connector",),
    ),
    Mutant(
        "connectors-replace-extensions",
        "the extensions of the user's own are replaced by those of a connector",
        (Change("spark/connectors.py", "dict.fromkeys([*given, *needed])", "dict.fromkeys(needed)"),),
        (CONNECTORS + "test_settings_of_the_users_own_stay",),
    ),
    Mutant(
        "connectors-replace-catalogs",
        "a catalog of the user's own is replaced by that of a connector",
        (Change("spark/connectors.py", " if yours(name) is None}", "}"),),
        (CONNECTORS + "test_settings_of_the_users_own_stay",),
    ),
    Mutant(
        "two-releases-side-by-side",
        "PySpark of one release drives the JVM of another",
        (
            Change(
                "spark/installed.py", "    elif jars is not None and minor_of(", "    elif jars is None and minor_of("
            ),
        ),
        ("tests/unit/spark/test_installed.py::test_two_releases_are_refused_in_one_line_that_names_both",),
    ),
    Mutant(
        "all-fetch-at-a-time",
        "drivers that start at a time destroy each other's downloads",
        (Change("spark/fetching.py", "        fcntl.flock(lock, fcntl.LOCK_EX)\n", "        pass\n"),),
        on("tests/unit/spark/test_fetching.py::test_the_second_waits_for_the_first", "flag", "setting"),
    ),
    Mutant(
        "nobody-looks-for-classes",
        "a storage for which Spark lacks classes is Spark's own error, with its stack",
        (
            Change(
                "spark/hadoop.py",
                "missing = None if needs is None else _missing(spark, needs)",
                "missing = None if needs is None or _missing(spark, needs) else None",
            ),
        ),
        on(MISSING + "test_the_line_names_the_class_and_the_connector", "s3://b/x", "s3a://b/x"),
    ),
    Mutant(
        "settings-of-the-environment-win",
        "what the user has set for Spark is replaced by what the variables of AWS say",
        (Change("spark/hadoop.py", "if not _is_users(spark, settings, name):", "if True:"),),
        (CLASSES + "test_a_setting_of_the_users_stays_and_no_key_is_in_spark",),
    ),
    Mutant(
        "delta-rs-reads-no-profile",
        "with a server of one's own, the keys of a profile are not found by delta-rs",
        (Change("s3_settings.py", 'options["AWS_FORCE_CREDENTIAL_LOAD"] = "true"', "pass"),),
        (CLASSES + "test_spark_stages_and_delta_rs_commits_to_one_table",),
    ),
    Mutant(
        "spark-reads-no-profile",
        "Spark looks for keys in variables and machines only",
        (
            Change(
                "s3_settings.py",
                '"fs.s3a.aws.credentials.provider": ",".join((*_PROVIDERS, _DEFAULT_PROVIDERS[aws_sdk])),',
                "",
            ),
        ),
        (CLASSES + "test_spark_writes_where_the_storage_reads_in_either_spelling",),
    ),
)
