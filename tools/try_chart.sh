#!/usr/bin/env bash
# Tries the Helm chart in a cluster on this machine, whose nodes and pods kwok plays: tools/try_chart.sh FOLDER
# It fails at what the API server refuses or warns of, what never becomes ready, and what is lost on the way.
# Go builds all of it into FOLDER the first time; beside Go it needs openssl. `tools/try_chart.sh FOLDER bash` runs a
# command in the place of the steps, which has kubectl and helm. Nothing is left running.
set -euo pipefail
chart=$(cd "$(dirname "$0")/../deploy/helm/taskyard" && pwd)
mkdir -p "$1/bin" && cd "$1" && shift
export KUBECONFIG=$PWD/kubeconfig PATH=$PWD/bin:$PATH
export GOWORK=off GOFLAGS="-mod=mod -buildvcs=false -trimpath" CGO_ENABLED=0
kubernetes=v1.37.2 kwok=v0.8.0 etcd=127.0.0.1:12379 peers=http://127.0.0.1:12380 api=16443

module() { # MODULE@VERSION: where it lies
  go mod download -json "$1" | sed -n 's/.*"Dir": "\(.*\)",/\1/p'
}

build() { # NAME PACKAGE VERSION
  test -x "bin/$1" && return
  mkdir -p "of-$1"
  (cd "of-$1" && echo "module tried" >go.mod && go get "$2@$3" && go build -ldflags "-s -w" -o "../bin/$1" "$2") \
    2>>build.log
}

build_kubernetes() {
  test -x bin/kube-scheduler && return
  rm -rf of-kubernetes && cp -r "$(module k8s.io/kubernetes@$kubernetes)" of-kubernetes
  chmod -R u+w of-kubernetes && cd of-kubernetes
  # Its module means the whole checkout. The parts that are left out of it are modules, too.
  rm -rf vendor go.work go.work.sum
  sed -i -E "s#^(\tk8s.io/[a-z-]+ =>) \./staging/src/(.*)#\1 \2 v0.${kubernetes#v1.}#" go.mod
  go build -ldflags "-s -w -X k8s.io/component-base/version.gitVersion=$kubernetes" -o ../bin/ \
    ./cmd/kube-apiserver ./cmd/kube-controller-manager ./cmd/kubectl ./cmd/kube-scheduler 2>>../build.log
  cd ..
}

certify() { # NAME SUBJECT EXTENSION
  openssl req -newkey rsa:2048 -nodes -keyout "$1.key" -subj "$2" 2>/dev/null |
    openssl x509 -req -CA ca.crt -CAkey ca.key -set_serial "0x$(openssl rand -hex 8)" -days 30 -extfile <(echo "$3") \
      -out "$1.crt" 2>/dev/null
}

start() { # PROGRAM ARGUMENTS...
  "$@" >"$1.log" 2>&1 &
  pids+=($!)
}

until_true() {
  for _ in $(seq 120); do "$@" >/dev/null 2>&1 && return || sleep 1; done
  echo "Never true: $*" >&2 && return 1
}

run_cluster() {
  rm -rf etcd-data
  openssl req -x509 -newkey rsa:2048 -nodes -keyout ca.key -out ca.crt -days 30 -subj /CN=ca 2>/dev/null
  certify server /CN=api "subjectAltName=IP:127.0.0.1"
  certify admin /O=system:masters/CN=admin "extendedKeyUsage=clientAuth"
  openssl rsa -in server.key -pubout -out server.pub 2>/dev/null
  kubectl config set-cluster c --server=https://127.0.0.1:$api --certificate-authority=ca.crt >/dev/null
  kubectl config set-credentials admin --client-certificate=admin.crt --client-key=admin.key >/dev/null
  kubectl config set-context c --cluster=c --user=admin >/dev/null && kubectl config use-context c >/dev/null
  start etcd --data-dir=etcd-data --listen-client-urls=http://$etcd --advertise-client-urls=http://$etcd \
    --listen-peer-urls=$peers --initial-advertise-peer-urls=$peers --initial-cluster=default=$peers
  start kube-apiserver --etcd-servers=http://$etcd --bind-address=127.0.0.1 --secure-port=$api \
    --advertise-address=127.0.0.1 --endpoint-reconciler-type=none --service-cluster-ip-range=10.96.0.0/16 \
    --authorization-mode=RBAC --client-ca-file=ca.crt --tls-cert-file=server.crt --tls-private-key-file=server.key \
    --service-account-issuer=https://here --service-account-key-file=server.pub \
    --service-account-signing-key-file=server.key
  until_true kubectl get --raw /readyz
  start kube-controller-manager --kubeconfig=kubeconfig --leader-elect=false --bind-address=127.0.0.1 \
    --service-account-private-key-file=server.key
  start kube-scheduler --kubeconfig=kubeconfig --leader-elect=false --bind-address=127.0.0.1
  for each in "$(module sigs.k8s.io/kwok@$kwok)"/kustomize/stage/{node/fast/node,pod/fast/pod}-*.yaml; do
    echo --- && cat "$each"
  done >stages.yaml
  start kwok --kubeconfig=kubeconfig --manage-all-nodes --node-lease-duration-seconds=40 --config=stages.yaml
  kubectl apply --server-side -f "$(module github.com/cert-manager/cert-manager@v1.21.2)/deploy/crds" \
    -f "$(module github.com/kedacore/keda/v2@v2.21.0)/config/crd/bases" \
    -f "$(module github.com/prometheus-operator/prometheus-operator@v0.85.0)/example/prometheus-operator-crd" >/dev/null
  for each in 1 2 3 4; do
    echo "{apiVersion: v1, kind: Node, metadata: {name: node-$each, labels: {kubernetes.io/hostname: node-$each}}}"
    echo ---
    echo "{apiVersion: v1, kind: PersistentVolume, metadata: {name: pv-$each}, spec: {hostPath: {path: /none},"
    echo "capacity: {storage: 99Gi}, accessModes: [ReadWriteOnce], storageClassName: none}}"
    echo ---
  done | kubectl apply -f - >/dev/null
  until_true kubectl wait --for=condition=Ready nodes --all --timeout=1s
}

say() { # A command whose warnings are errors
  echo "\$ ${*/$chart/CHART}" && "$@" >>steps.log 2>warnings || { cat warnings && return 1; }
  ! grep -i warn warnings
}

of() { # KIND NAME PATH
  kubectl get "$1" "$2" -o "jsonpath={$3}"
}

all_pods_are_of() { # IMAGE
  test "$(kubectl get pods -o jsonpath='{range .items[*]}{.spec.containers[0].image}{"\n"}{end}' | sort -u)" = "$1"
}

steps() {
  kubectl config set-context --current --namespace=shop >/dev/null && rm -f steps.log
  kubectl create namespace shop >/dev/null
  kubectl label namespace shop pod-security.kubernetes.io/{enforce,warn}=restricted >/dev/null
  kubectl create secret generic url --from-literal=url=postgresql://db/yard >/dev/null
  local all="--set serviceMonitor.enabled=true,prometheusRule.enabled=true,dashboards.enabled=true,tls.issuer.name=ours"
  local one="$all --set sqlite.storageClass=none" install="helm upgrade --install --wait --timeout 1m yard $chart"
  local many="$all --set store=postgres,replicas=3,postgres.existingSecret=url,replicaTls.certManager=true"
  for form in "statefulset $one" "deployment $many"; do
    read -r kind values <<<"$form"
    say $install $values
    token=$(of secret yard-taskyard-tokens .data.admin-token)
    say $install $values
    test "$(of "$kind" yard-taskyard .metadata.generation)" = 1
    say $install $values --set image.tag=next,resources.limits.memory=2Gi,service.type=NodePort
    until_true all_pods_are_of taskyard:next
    say helm rollback yard 1 --wait --timeout 1m
    test "$(of secret yard-taskyard-tokens .data.admin-token)" = "$token"
    say helm uninstall yard --wait
  done
  say $install $one
  say $install $many
  say helm rollback yard 1 --wait --timeout 1m
  say helm uninstall yard --wait
  test "$(kubectl get pvc,secret,deployment,statefulset,service -o name | xargs)" = \
    "persistentvolumeclaim/state-yard-taskyard-0 secret/url"
  echo "All steps went well."
}

build_kubernetes
build etcd go.etcd.io/etcd/server/v3 v3.7.3
build kwok sigs.k8s.io/kwok/cmd/kwok $kwok
build helm helm.sh/helm/v4/cmd/helm v4.3.1
pids=()
trap 'kill -KILL "${pids[@]}"; wait 2>/dev/null' EXIT
run_cluster
if test $# -gt 0; then "$@"; else steps; fi
