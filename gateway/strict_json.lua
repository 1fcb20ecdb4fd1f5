-- Refuses bodies that are not strict JSON (RFC 8259). The transcoder's own parser also accepts single quotes, bare keys,
-- trailing commas, unknown escapes, repeated keys, a single item in place of a list, and everywhere unknown fields. It does
-- check UTF-8, surrogates and types, after this filter. README.md has the rules.

local byte, char, find, sub = string.byte, string.char, string.find, string.sub
local floor = math.floor

-- The limit of the transcoder.
local MAX_DEPTH = 100
-- The most that an error quotes of a body.
local QUOTED_BYTES = 40

local QUOTE, COMMA, COLON = 0x22, 0x2C, 0x3A
local OPEN_LIST, CLOSE_LIST, OPEN_OBJECT, CLOSE_OBJECT = 0x5B, 0x5D, 0x7B, 0x7D
local MINUS, PLUS, POINT, ZERO, NINE = 0x2D, 0x2B, 0x2E, 0x30, 0x39
local UPPER_E, LOWER_E, LOWER_N, LOWER_U = 0x45, 0x65, 0x6E, 0x75

local ESCAPED = {['"'] = '"', ["\\"] = "\\", ["/"] = "/", b = "\b", f = "\f", n = "\n", r = "\r", t = "\t"}
local IS_ESCAPED, IS_HEX = {}, {}
for letter in pairs(ESCAPED) do
  IS_ESCAPED[byte(letter)] = true
end
for digit in ("0123456789abcdefABCDEF"):gmatch(".") do
  IS_HEX[byte(digit)] = true
end
local LITERALS = {[byte("t")] = "true", [byte("f")] = "false", [LOWER_N] = "null"}

-- The lists in request messages. The transcoder would accept a single item for a list, and drop null among its items.
-- tests/gateway/test_strict_json.py compares these with the protos.
local STRINGS = {items = {opens = QUOTE, name = "a string"}}
-- `opens` stands for all that a number begins with.
local NUMBERS = {items = {opens = ZERO, name = "a number"}}
local RETRY_POLICY = {fields = {nonRetryableCodes = STRINGS}}
local TEMPLATE = {fields = {requires = STRINGS, retryPolicy = RETRY_POLICY, concurrencyKeys = STRINGS}}
local TASK = {fields = {requires = STRINGS, retryPolicy = RETRY_POLICY, concurrencyKeys = STRINGS, after = STRINGS}}
local TASKS = {items = {opens = OPEN_OBJECT, name = "an object", fields = {requires = STRINGS,
  retryPolicy = RETRY_POLICY, concurrencyKeys = STRINGS, after = STRINGS, afterIndexes = NUMBERS}}}
local SCHEDULE = {fields = {task = TEMPLATE}}
local GRANT = {namespaces = STRINGS, agents = STRINGS, hosts = STRINGS, projects = STRINGS, actions = STRINGS}
local GRANTS = {items = {opens = OPEN_OBJECT, name = "an object", fields = GRANT}}
-- What no part of may be passed by unnoticed: with a misspelt condition more tasks would be cancelled, and with a
-- misspelt limit there would be none. Every field is named here, and others are refused.
local function closed(...)
  local fields = {}
  for _, name in ipairs({...}) do
    fields[name] = {}
  end
  return {fields = fields, closed = true}
end
local FILTER = closed("agentId", "state", "batchId", "target", "parentId", "action", "hostId", "concurrencyKey", "labels",
  "createdFrom", "createdUntil", "endedFrom", "endedUntil", "error", "idPrefix")
local function operation(...)
  local message = closed("operationId", "all", "dryRun", ...)
  message.fields.filter = FILTER
  return message
end
local LIMIT = closed("pattern", "maxInflight", "perSecond", "burst")
local OTHER = {fields = {}}
local MESSAGES = {
  {"^/tasks$", TASK},
  {"^/tasks/batch$", {fields = {tasks = TASKS}}},
  {"^/tasks:cancel$", operation()},
  {"^/tasks:pause$", operation()},
  {"^/tasks:resume$", operation("tokenLimit")},
  {"^/tasks:resolve$", operation("result")},
  {"^/tasks:reprioritize$", operation("priority")},
  {"^/limits/[^/]+$", LIMIT, "PUT"},
  {"^/schedules$", SCHEDULE},
  {"^/schedules/[^/]+$", SCHEDULE},
  {"^/tokens$", {fields = {grants = GRANTS}}},
  {"^/api/runtime%-hosts/register$", {fields = {capabilities = STRINGS, actions = STRINGS}}},
}

local function message_of(method, target)
  local path = target:match("^[^?]*"):gsub("/+$", "")
  for _, message in ipairs(MESSAGES) do
    if path:find(message[1]) and (message[3] or method) == method then
      return message[2]
    end
  end
  return OTHER
end

local function refuse(format, ...)
  error({string.format(format, ...)}, 0)
end

local function fail(text, i, expected)
  local found = i > #text and "the end" or sub(text, i, i + QUOTED_BYTES - 1)
  refuse("invalid JSON: expected %s at byte %d, found: %s", expected, i, found)
end

-- Each of the following functions takes the position where its part begins and returns the position behind it.

local function skip_spaces(text, i)
  local c
  repeat
    i = i + 1
    c = byte(text, i)
  until c ~= 0x20 and c ~= 0x0A and c ~= 0x0D and c ~= 0x09
  return i, c
end

-- Separate from the loop, since most bodies have no spaces: LuaJIT compiles no loop that mostly ends at once.
local function skip_space(text, i)
  local c = byte(text, i)
  if c == 0x20 or c == 0x0A or c == 0x0D or c == 0x09 then
    return skip_spaces(text, i)
  end
  return i, c
end

-- The positions of the next backslash and the next control character of the body. With them, a string is searched for
-- its closing quote only. They may be shared, since a check never yields.
local next_backslash, next_control

local function find_control(text, i)
  for at = i, #text do
    if byte(text, at) < 0x20 then
      return at
    end
  end
  return #text + 1
end

-- The closing quote of a string with escapes; `quote` is the first quote in it.
local function skip_escapes(text, quote)
  local at = next_backslash
  while at < quote do
    local c = byte(text, at + 1)
    if not IS_ESCAPED[c] and not (c == LOWER_U and IS_HEX[byte(text, at + 2)] and IS_HEX[byte(text, at + 3)]
      and IS_HEX[byte(text, at + 4)] and IS_HEX[byte(text, at + 5)]) then
      fail(text, at, "an escape sequence of JSON")
    end
    if at + 1 == quote then
      quote = find(text, '"', quote + 1, true) or fail(text, #text + 1, "a closing quote")
    end
    at = find(text, "\\", at + 2, true) or #text + 1
  end
  next_backslash = at
  return quote
end

-- `i` is behind the opening quote.
local function skip_string(text, i)
  local quote = find(text, '"', i, true) or fail(text, #text + 1, "a closing quote")
  if next_backslash < quote then
    quote = skip_escapes(text, quote)
  end
  if next_control < i then
    next_control = find_control(text, i)
  end
  if next_control < quote then
    fail(text, next_control, "no control character in a string")
  end
  return quote + 1
end

local function skip_digits(text, i)
  local c = byte(text, i)
  if not c or c < ZERO or c > NINE then
    fail(text, i, "a digit")
  end
  repeat
    i = i + 1
    c = byte(text, i)
  until not c or c < ZERO or c > NINE
  return i, c
end

local function skip_number(text, i, c)
  if c == MINUS then
    i = i + 1
    c = byte(text, i)
  end
  if c == ZERO then
    i = i + 1
    c = byte(text, i)
  else
    i, c = skip_digits(text, i)
  end
  if c == POINT then
    i, c = skip_digits(text, i + 1)
  end
  if c == UPPER_E or c == LOWER_E then
    i = i + 1
    c = byte(text, i)
    i = skip_digits(text, (c == PLUS or c == MINUS) and i + 1 or i)
  end
  return i
end

local function utf8(code)
  if code < 0x80 then
    return char(code)
  elseif code < 0x800 then
    return char(0xC0 + floor(code / 64), 0x80 + code % 64)
  elseif code < 0x10000 then
    return char(0xE0 + floor(code / 4096), 0x80 + floor(code / 64) % 64, 0x80 + code % 64)
  end
  return char(0xF0 + floor(code / 262144), 0x80 + floor(code / 4096) % 64, 0x80 + floor(code / 64) % 64,
    0x80 + code % 64)
end

-- A key without escapes, so that all spellings of it are equal.
local function decoded(key)
  local parts, i = {}, 1
  while true do
    local slash = find(key, "\\", i, true)
    parts[#parts + 1] = sub(key, i, (slash or 0) - 1)
    if not slash then
      return table.concat(parts)
    end
    local escaped = ESCAPED[sub(key, slash + 1, slash + 1)]
    i = slash + 2
    if not escaped then
      local code = tonumber(sub(key, i, i + 3), 16)
      i = i + 4
      local low = key:match("^\\u([dD][c-fC-F]%x%x)", i)
      if low and code >= 0xD800 and code < 0xDC00 then
        code = 0x10000 + (code - 0xD800) * 1024 + tonumber(low, 16) - 0xDC00
        i = i + 6
      end
      escaped = utf8(code)
    end
    parts[#parts + 1] = escaped
  end
end

-- The camelCase name of a field, which also has a snake_case one.
local function camel(key)
  return (key:gsub("_(%l)", string.upper))
end

local skip_value

local function skip_list(text, i, depth, list, at)
  local item, count = list and list.items, 0
  local c
  i, c = skip_space(text, i)
  if c == CLOSE_LIST then
    return i + 1
  end
  while true do
    local inner, first = item and string.format("%s[%d]", at, count), c
    i, c = skip_space(text, skip_value(text, i, c, depth, item, inner))
    local is_number = first == MINUS or first >= ZERO and first <= NINE
    if item and (is_number and ZERO or first) ~= item.opens then
      refuse("%s: must be %s", inner, item.name)
    end
    if c == CLOSE_LIST then
      return i + 1
    elseif c ~= COMMA then
      fail(text, i, "a comma or ]")
    end
    i, c = skip_space(text, i + 1)
    count = count + 1
  end
end

local function skip_object(text, i, depth, message, at)
  local fields, seen = message and message.fields, {}
  local c
  i, c = skip_space(text, i)
  if c == CLOSE_OBJECT then
    return i + 1
  end
  while true do
    if c ~= QUOTE then
      fail(text, i, "a key in double quotes")
    end
    local start = i + 1
    i = skip_string(text, start)
    local key = sub(text, start, i - 2)
    if find(key, "\\", 1, true) then
      key = decoded(key)
    end
    local field, inner
    if fields then
      key = camel(key)
      field = fields[key]
      inner = (field or message.closed) and (at == "" and key or at .. "." .. key)
      if not field and message.closed then
        refuse("%s: is no field of this request", sub(inner, 1, QUOTED_BYTES))
      end
    end
    if seen[key] then
      local name = sub(key, 1, QUOTED_BYTES)
      refuse("invalid JSON: the key at byte %d is given more than once: %s", start - 1, name)
    end
    seen[key] = true
    i, c = skip_space(text, i)
    if c ~= COLON then
      fail(text, i, "a colon")
    end
    i, c = skip_space(text, i + 1)
    local first = c
    i, c = skip_space(text, skip_value(text, i, c, depth, field, inner))
    if field and field.items and first ~= OPEN_LIST and first ~= LOWER_N then
      refuse("%s: must be an array", inner)
    end
    if c == CLOSE_OBJECT then
      return i + 1
    elseif c ~= COMMA then
      fail(text, i, "a comma or }")
    end
    i, c = skip_space(text, i + 1)
  end
end

-- `c` is the byte at `i`, `shape` the message or list that is expected, if any, and `at` its path for errors.
function skip_value(text, i, c, depth, shape, at)
  if c == QUOTE then
    return skip_string(text, i + 1)
  elseif c == OPEN_OBJECT or c == OPEN_LIST then
    if depth == MAX_DEPTH then
      refuse("invalid JSON: nests deeper than %d levels", MAX_DEPTH)
    end
    return (c == OPEN_OBJECT and skip_object or skip_list)(text, i + 1, depth + 1, shape, at)
  elseif c == MINUS or c and c >= ZERO and c <= NINE then
    return skip_number(text, i, c)
  end
  local literal = LITERALS[c]
  if not literal or sub(text, i, i + #literal - 1) ~= literal then
    fail(text, i, "a value")
  end
  return i + #literal
end

local function check(text, message)
  next_backslash, next_control = find(text, "\\", 1, true) or #text + 1, find_control(text, 1)
  local i, c = skip_space(text, 1)
  if c and c ~= OPEN_OBJECT then
    skip_value(text, i, c, 0)
    refuse("the body must be a JSON object")
  end
  i, c = skip_space(text, skip_value(text, i, c, 0, message, ""))
  if c then
    fail(text, i, "the end")
  end
end

function envoy_on_request(handle)
  local body = handle:body()
  local length = body and body:length() or 0
  if length > 0 then
    local text, headers = body:getBytes(0, length), handle:headers()
    local is_strict, problem = pcall(check, text, message_of(headers:get(":method"), headers:get(":path")))
    if not is_strict then
      -- An error that is not a table is a defect of this file.
      handle:respond({[":status"] = "400"}, type(problem) == "table" and problem[1] or error(problem, 0))
    end
  end
end
