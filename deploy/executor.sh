#!/bin/bash
# Starts Spark's executor in a pod that Spark made: deploy/kubernetes/spark/executor.yaml has it as its command. Spark
# says everything in variables, as to the entrypoint of its own images: options of the JVM in SPARK_JAVA_OPT_0 and so on,
# in any order of the environment.
set -eu
options=()
for ((number = 0; ; number++)); do
    name="SPARK_JAVA_OPT_$number"
    [ -n "${!name+set}" ] || break
    options+=("${!name}")
done
home=${SPARK_HOME:-$(python3 -c 'import pyspark; print(pyspark.__path__[0])')}
exec "${JAVA_HOME:+$JAVA_HOME/bin/}java" "${options[@]}" \
    "-Xms$SPARK_EXECUTOR_MEMORY" "-Xmx$SPARK_EXECUTOR_MEMORY" \
    -cp "${SPARK_CONF_DIR:-/opt/spark/conf}:${SPARK_CLASSPATH:-}:$home/jars/*" \
    org.apache.spark.scheduler.cluster.k8s.KubernetesExecutorBackend \
    --driver-url "$SPARK_DRIVER_URL" \
    --executor-id "$SPARK_EXECUTOR_ID" \
    --cores "$SPARK_EXECUTOR_CORES" \
    --app-id "$SPARK_APPLICATION_ID" \
    --hostname "$SPARK_EXECUTOR_POD_IP" \
    --resourceProfileId "$SPARK_RESOURCE_PROFILE_ID" \
    --podName "$SPARK_EXECUTOR_POD_NAME"
