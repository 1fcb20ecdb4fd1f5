-- Names the cluster of the replica that owns the namespace of a call; the routes take it from this header. It is the
-- first filter, for REST, gRPC and gRPC-Web, and with replicas only. `taskyard up` fills the table and shows Envoy this
-- file anew when an owner changes (server/taskyard_server/carrying.py).
local CLUSTER = "x-taskyard-cluster"
local OWN = "taskyard"

-- A namespace and its cluster, each followed by a space or a line end. One string, since the number of constants of a
-- program is limited.
local OWNERS = {}
for namespace, cluster in ([[]]):gmatch("(%S+) (%S+)") do
  OWNERS[namespace] = cluster
end

-- What is about the server that is called, or about all namespaces, is answered by it.
local HERE = {
  "^/taskyard%.v1%.AdminService/", "^/taskyard%.v1%.NamespaceService/", "^/taskyard%.v1%.TokenService/", "^/grpc%.",
  "^/admin%f[^%w]", "^/namespaces%f[^%w]", "^/tokens%f[^%w]", "^/whoami%f[^%w]", "^/openapi%.json",
}

local function is_answered_here(path)
  for _, pattern in ipairs(HERE) do
    if path:find(pattern) then
      return true
    end
  end
  return false
end

-- Two headers come here as one, with a comma. What is no name of a namespace is in no table, and the server refuses it.
function envoy_on_request(handle)
  local headers = handle:headers()
  local cluster = OWNERS[headers:get("taskyard-namespace") or "default"]
  if cluster and is_answered_here(headers:get(":path") or "") then
    cluster = nil
  end
  headers:replace(CLUSTER, cluster or OWN)
end
