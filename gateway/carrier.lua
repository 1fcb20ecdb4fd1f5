-- Names the cluster of the replica that owns the namespace of a call; the routes take it from this header. It is the
-- first filter, for REST, gRPC and gRPC-Web, and with replicas only. `taskyard up` puts the path of the table in.
--
-- The table is a file that grows: each line sets the cluster of a namespace, or ends that of the one it names, and a
-- last line `!` says that the path names another file. So that a change costs what it says, however long the table is.
-- Envoy's own ways to bring it (ECDS, RDS) keep each version in memory for as long as a call lives that began with it:
-- 3 MB with 10,000 namespaces, and streams live for days.
local PATH = "/dev/null"
local CLUSTER = "x-taskyard-cluster"
local OWN = "taskyard"
local OWN_FIRST = "own-first"
local LOOK_MS = 20

local owners, file, rest, looked = {}, nil, "", 0

-- What is about the server that is called, or about all namespaces, is answered by it.
local HERE = {
  "^/taskyard%.v1%.AdminService/", "^/taskyard%.v1%.TokenService/", "^/grpc%.",
  "^/taskyard%.v1%.HealthService/", "^/taskyard%.v1%.SignInService/", "^/healthz%f[^%w]", "^/readyz%f[^%w]", "^/sign%-in%f[^%w]",
  "^/admin%f[^%w]", "^/namespaces/*$", "^/namespaces/*%?", "^/tokens%f[^%w]", "^/whoami%f[^%w]", "^/openapi%.json",
}

local function is_answered_here(path)
  for _, pattern in ipairs(HERE) do
    if path:find(pattern) then
      return true
    end
  end
  return false
end

local function read_on()
  local more = file:read("*a")
  if not more or more == "" then
    return
  end
  local text = rest .. more
  local stop = text:find("[^\n]*$")
  for namespace, cluster in text:sub(1, stop - 1):gmatch("([^ \n]+) ?([^ \n]*)\n") do
    if namespace == "!" then
      file:close()
      file = nil
    else
      owners[namespace] = cluster ~= "" and cluster or nil
    end
  end
  rest = text:sub(stop)
end

local function look()
  if file then
    read_on()
  end
  if not file then
    local opened = io.open(PATH)
    if opened then
      file, rest, owners = opened, "", {}
      read_on()
    end
  end
end

-- Two headers come here as one, with a comma. What is no name of a namespace is in no table, and the server refuses it.
function envoy_on_request(handle)
  local headers = handle:headers()
  local now = handle:timestamp()
  if now - looked >= LOOK_MS or now < looked then
    looked = now
    look()
  end
  local path = headers:get(":path") or ""
  -- What is done to a namespace is done by its owner, whatever the header says.
  local named = path:match("^/namespaces/+([^/?]+)")
  local cluster = owners[named or headers:get("taskyard-namespace") or "default"] or OWN_FIRST
  if is_answered_here(path) then
    cluster = OWN
  end
  headers:replace(CLUSTER, cluster)
end
