-- Completes the answers of the transcoder: the documented status codes, error bodies, empty lists and content type of
-- streams, and HEAD. The routes for gRPC switch this filter off. README.md has the contract with the server.

-- Tells the server that a GET came as HEAD.
local HEAD = "x-taskyard-head"

-- The transcoder leaves gRPC's headers in its answers. The last six are for this file only.
local NOT_FOR_CALLERS = {
  "grpc-status", "grpc-message", "grpc-status-details-bin", "grpc-accept-encoding", "grpc-encoding",
  "x-error-json", "x-http-status", "x-not-owner", "x-rest-empty", "x-rest-type",
  "x-rest-length",
}

-- The bodies of refusals by Envoy and by grpc itself. Other statuses are `internal`.
local REFUSALS = {
  [400] = {code = "bad_request", error = "malformed request"},
  [401] = {code = "unauthenticated", error = "unauthenticated"},
  [403] = {code = "permission_denied", error = "upgrades of the connection are not accepted"},
  [404] = {code = "not_found", error = "unknown path or verb"},
  [408] = {code = "unavailable", error = "the request did not arrive in time", retryable = true},
  [413] = {code = "too_large", error = "the request body is over 1048576 bytes"},
  [426] = {code = "bad_request", error = "HTTP/1.1 or HTTP/2 is needed"},
  [429] = {code = "unavailable", error = "the server is busy", retryable = true},
  [431] = {code = "too_large", error = "the request headers are too large"},
  [501] = {code = "unimplemented", error = "not implemented"},
  [502] = {code = "unavailable", error = "the server cannot be reached", retryable = true},
  [503] = {code = "unavailable", error = "the server cannot be reached", retryable = true},
  [504] = {code = "unavailable", error = "the server did not answer in time", retryable = true},
}
local INTERNAL = {code = "internal", error = "internal error"}

-- Envoy quotes the request; at most this much of it is returned.
local QUOTED_BYTES = 500

local function remove_all(headers)
  for _, name in ipairs(NOT_FOR_CALLERS) do
    headers:remove(name)
  end
end

-- The bytes of one UTF-8 character at `i`, or nil: a quote may be cut, and a request may hold any bytes.
local function utf8_char(text, i)
  local first = text:byte(i)
  local length = first < 0x80 and 1 or first >= 0xC2 and first < 0xE0 and 2 or first >= 0xE0 and first < 0xF0 and 3
    or first >= 0xF0 and first < 0xF5 and 4
  if not length or i + length - 1 > #text then
    return nil
  end
  local char = text:sub(i, i + length - 1)
  if not char:find("^.[\128-\191]*$") then
    return nil
  end
  local second = char:byte(2)
  if first == 0xE0 and second < 0xA0 or first == 0xED and second > 0x9F
    or first == 0xF0 and second < 0x90 or first == 0xF4 and second > 0x8F then
    return nil
  end
  return char
end

local function json_string(text)
  local out, i = {}, 1
  while i <= #text do
    local char = utf8_char(text, i)
    if not char then
      out[#out + 1] = "\\ufffd"
    elseif char == '"' or char == "\\" then
      out[#out + 1] = "\\" .. char
    elseif char < " " or char == "\127" then
      out[#out + 1] = string.format("\\u%04x", char:byte())
    else
      out[#out + 1] = char
    end
    i = i + (char and #char or 1)
  end
  return '"' .. table.concat(out) .. '"'
end

-- The error text of a refusal by Envoy, where it helps the caller and reveals nothing internal.
local function envoy_error(status, text)
  if status == 403 then
    return text ~= "" and text or nil
  elseif status == 404 then
    local path = text:match("^Could not resolve (.*) to a method%.$")
    return path and "unknown path or verb: " .. path:sub(1, QUOTED_BYTES)
  elseif status == 400 then
    if text:find("^invalid JSON: ") then
      return text
    end
    local parameter = text:match('^Could not find field "(.*)" in the type "[%w_.]+"%.$')
    if parameter then
      return "unknown query parameter: " .. parameter:sub(1, QUOTED_BYTES)
    end
    local twice = text:match("oneof field '_([%w_]+)' is already set")
    if twice then
      return twice .. ": is given more than once"
    end
    local beside = text:match("oneof field '[%w_]+' is already set%. Cannot set '([%w_]+)'")
    if beside then
      return beside .. ": excludes another field that is given"
    end
    if text:find("Root element must be a message", 1, true) then
      return "the body must be a JSON object"
    end
    -- A parse error: a sentence, an extract, and a caret below the position.
    local what, near, indent = text:match("^([^\n]+)\n(.*)\n( *)^$")
    if what then
      near = near:sub(#indent + 1, #indent + QUOTED_BYTES)
      return "invalid JSON: " .. what .. (near ~= "" and " At: " .. near or "")
    end
    text = text:gsub("^: ", ""):sub(1, QUOTED_BYTES)
    return text ~= "" and text ~= "Bad Request" and text or nil
  end
end

-- The message of a status of grpc itself, as the transcoder prints it: a JSON string, returned with its escapes.
local function grpc_message(text)
  local _, start = text:find('^{"code":%d+,"message":"')
  if start then
    -- Mask escape sequences, so that the next quote is the closing one.
    local stop = text:gsub("\\.", "  "):find('"', start + 1, true)
    return stop and text:sub(start, stop)
  end
end

-- The status and the documented body of a refusal that does not come from the code of the server.
local function refuse(status, text, content_type)
  local error
  if content_type == "application/json" then
    error = grpc_message(text)
    if error == '"Method not found!"' then
      -- A service that the server does not have.
      status, error = 404, nil
    elseif error and error:find("google.protobuf.message.DecodeError", 1, true) then
      -- The transcoder checks bodies, so it is percent-encoded bytes.
      status, error = 400, '"the path or the query is not UTF-8"'
    elseif error and error:find("received metadata size exceeds", 1, true) then
      -- Envoy takes more than grpc does.
      status, error = 431, nil
    elseif status >= 500 then
      -- The texts of uncaught errors reveal internals.
      error = nil
    end
  else
    local words = envoy_error(status, text)
    error = words and json_string(words)
  end
  local refusal = REFUSALS[status] or INTERNAL
  return tostring(status), string.format('{"code":"%s","error":%s%s}', refusal.code,
    error or json_string(refusal.error), refusal.retryable and ',"retryable":true' or "")
end

-- An answer to HEAD has the content-length of the body that GET would get.
local function replace_body(handle, body, text, is_head)
  body:setBytes(is_head and "" or text)
  -- Header objects are invalid after waiting for the body: get a new one.
  handle:headers():replace("content-length", tostring(#text))
end

-- The types of what is no JSON. For HEAD the server sends no message that would tell.
local FORMS = {events = "text/event-stream", text = "text/plain; charset=utf-8"}

local function success(handle, headers, is_head, form)
  local status, empty_list = headers:get("x-http-status"), headers:get("x-rest-empty")
  local bytes, length = headers:get("x-rest-type"), headers:get("x-rest-length")
  remove_all(headers)
  if status and status:find("^20[0-36]$") then
    headers:replace(":status", status)
  end
  if bytes then
    headers:replace("content-type", bytes)
    -- A stream that breaks off would end like any other without it.
    headers:replace("content-length", length)
  elseif not headers:get("content-length") and headers:get("content-type") == "application/json" then
    -- A stream: one JSON object a line, never buffered. For HEAD the server sends none.
    headers:replace("content-type", FORMS[form] or "application/x-ndjson")
  elseif empty_list or is_head then
    local body = handle:body(true)
    local text = body:getBytes(0, body:length())
    local fields = empty_list and text:match("^{(.*)}$")
    if fields then
      text = '{"' .. empty_list .. '":[]' .. (fields ~= "" and "," or "") .. fields .. "}"
    end
    replace_body(handle, body, text, is_head)
  end
end

local function failure(handle, headers, status, is_head)
  local json, wanted = headers:get("x-error-json"), headers:get("x-http-status")
  local content_type = headers:get("content-type")
  remove_all(headers)
  -- For HEAD, Envoy's own refusals have no body.
  local body = handle:body(not is_head)
  local trailers = not json and handle:trailers()
  if trailers then
    -- The call was refused after its headers were sent.
    json, wanted = trailers:get("x-error-json"), trailers:get("x-http-status")
    remove_all(trailers)
  end
  local is_by_envoy = not json
  if is_by_envoy then
    wanted, json = refuse(status, body and body:getBytes(0, body:length()) or "", content_type)
  end
  if body then
    replace_body(handle, body, json, is_head)
  else
    handle:headers():remove("content-length")
  end
  headers = handle:headers()
  headers:replace("content-type", "application/json")
  if wanted and wanted:find("^[45]%d%d$") then
    headers:replace(":status", wanted)
  end
  local wait_ms = (wanted == "429" or wanted == "503") and json:match('"retryAfterMs":%s*(%d+)')
  if wait_ms then
    headers:replace("retry-after", string.format("%d", math.ceil(wait_ms / 1000)))
  elseif is_by_envoy and wanted == "503" then
    headers:replace("retry-after", "1")
  end
end

-- HEAD is a GET without the body of its answer (RFC 9110, 9.3.2). The transcoder knows no HEAD, and Envoy writes every
-- body that follows the headers, where the next answer on the connection should begin.
function envoy_on_request(handle)
  local headers = handle:headers()
  if headers:get(":method") == "HEAD" then
    headers:replace(":method", "GET")
    headers:replace(HEAD, "1")
    local metadata = handle:streamInfo():dynamicMetadata()
    metadata:set("taskyard", "is_head", true)
    metadata:set("taskyard", "form", (headers:get(":path") or ""):match("^/tasks/[^/?]+/output/(%a+)") or "")
  else
    headers:remove(HEAD)
  end
end

function envoy_on_response(handle)
  local headers = handle:headers()
  -- A gRPC call that was refused before it had a route, such as one with too large headers.
  if (headers:get("content-type") or ""):find("^application/grpc") then
    return
  end
  local request = handle:streamInfo():dynamicMetadata():get("taskyard")
  local is_head = request and request.is_head
  local status = tonumber(headers:get(":status"))
  if status < 400 then
    success(handle, headers, is_head, request and request.form)
  else
    failure(handle, headers, status, is_head)
  end
end
