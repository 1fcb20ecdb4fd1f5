// Inputs and outputs that travel exactly: in params and result where these hold the value, else in a payload
// (docs/rules.md, Payloads).

package taskyard

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"unicode/utf8"

	"google.golang.org/protobuf/types/known/structpb"

	taskyardv1 "github.com/taskyard/taskyard/clients/go/v1"
)

// longestExact is how many digits every integer may have that a double holds: 2^53 has one more.
const longestExact = 15

// Payload is a value that the server keeps as it is. Give one as NewTask.Input, or return one from a handler, to send
// bytes of your own.
type Payload struct {
	// Data are the bytes.
	Data []byte
	// Encoding is what the bytes are: "" for JSON, else the name of the codec by which both ends read them.
	Encoding string
}

// Decode stores the value in what v points to, as encoding/json does: integers keep all of their digits. The error is
// that of encoding/json, or tells that the bytes are in the encoding of a codec.
func (p *Payload) Decode(v any) error {
	if p.Encoding != "" {
		return fmt.Errorf("it is encoded by the codec %q, which has to decode its data", p.Encoding)
	}
	return json.Unmarshal(p.Data, v)
}

// Output is a result of a handler that travels exactly: integers beyond 2^53 keep all of their digits. A plain result
// with such an integer fails the task instead.
type Output struct {
	// Value is anything that encoding/json can encode, nil for none.
	Value any
}

func (p *Payload) message() *taskyardv1.Payload {
	return &taskyardv1.Payload{Data: p.Data, Encoding: optional(p.Encoding)}
}

func payloadOf(m *taskyardv1.Payload) *Payload {
	if m == nil {
		return nil
	}
	return &Payload{Data: m.GetData(), Encoding: m.GetEncoding()}
}

// givenPayload returns the payload that a value is, nil if it is none.
func givenPayload(v any) *taskyardv1.Payload {
	switch v := v.(type) {
	case *Payload:
		return v.message()
	case Payload:
		return v.message()
	}
	return nil
}

// encodeInput returns an input as params where these hold it exactly, else as a payload.
func encodeInput(v any) (*structpb.Struct, *taskyardv1.Payload, error) {
	if given := givenPayload(v); given != nil {
		return nil, given, nil
	}
	value, payload, err := encodeExactly(v)
	if object := value.GetStructValue(); err != nil || payload != nil || object != nil || value == nil {
		return object, payload, err
	}
	text, err := json.Marshal(v)
	return nil, &taskyardv1.Payload{Data: text}, err
}

// encodeOutput returns an output as a result where that holds it exactly, else as a payload.
func encodeOutput(v any) (*structpb.Value, *taskyardv1.Payload, error) {
	if given := givenPayload(v); given != nil {
		return nil, given, nil
	}
	return encodeExactly(v)
}

// encodeExactly returns a value as a message, or as a payload if the message would not hold it exactly.
func encodeExactly(v any) (*structpb.Value, *taskyardv1.Payload, error) {
	if v == nil {
		return nil, nil, nil
	}
	text, err := json.Marshal(v)
	if err != nil {
		return nil, nil, err
	}
	if !utf8.Valid(text) {
		// A json.RawMessage or a MarshalJSON of one's own may hold anything.
		return nil, nil, errors.New("it is no UTF-8")
	}
	value := new(structpb.Value)
	if firstInexact(text, "") != "" || value.UnmarshalJSON(text) != nil || isDeeper(value, maxDepth) {
		return nil, &taskyardv1.Payload{Data: text}, nil
	}
	return value, nil, nil
}

// firstInexact returns the path and the digits of the first integer that a double does not hold, "" if there is none.
func firstInexact(text []byte, field string) string {
	if !hasLongNumber(text) {
		return ""
	}
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber()
	return inexactIn(decoder, field)
}

// hasLongNumber reports whether a text has so many digits in a row as no small integer has.
func hasLongNumber(text []byte) bool {
	run := 0
	for _, each := range text {
		if each < '0' || each > '9' {
			run = 0
		} else if run++; run > longestExact {
			return true
		}
	}
	return false
}

// inexactIn reads one value, and returns the first integer within that a double does not hold.
func inexactIn(decoder *json.Decoder, path string) string {
	token, err := decoder.Token()
	if err != nil {
		if errors.Is(err, io.EOF) {
			return ""
		}
		return path + ": " + err.Error()
	}
	switch token := token.(type) {
	case json.Number:
		if !isExact(token.String()) {
			return path + ": " + token.String()
		}
	case json.Delim:
		for n := 0; decoder.More(); n++ {
			within := fmt.Sprintf("%s[%d]", path, n)
			if token == '{' {
				key, err := decoder.Token()
				if err != nil {
					return path + ": " + err.Error()
				}
				within = fmt.Sprintf("%s.%s", path, key)
			}
			if found := inexactIn(decoder, within); found != "" {
				return found
			}
		}
		// The end of the list or the object.
		_, _ = decoder.Token()
	}
	return ""
}

// isExact reports whether a number is written the same once a double has held it, with all of its digits. The floats of
// Go are, also large ones.
func isExact(number string) bool {
	if strings.ContainsAny(number, ".eE") {
		return true
	}
	double, err := strconv.ParseFloat(number, 64)
	return err == nil && strconv.FormatFloat(double, 'f', -1, 64) == number
}
