// Between Go values and those of messages: JSON, times, optional fields.

package taskyard

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"time"

	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/structpb"
	"google.golang.org/protobuf/types/known/timestamppb"
)

// maxDepth is how many levels of lists and objects the server takes. Much deeper, and it could not read the message.
const maxDepth = 30

// valueOf answers what encoding/json makes of v as a message; nil stands for no value.
func valueOf(v any) (*structpb.Value, error) {
	if v == nil {
		return nil, nil
	}
	text, err := json.Marshal(v)
	if err != nil {
		return nil, err
	}
	value := new(structpb.Value)
	if err := value.UnmarshalJSON(text); err != nil {
		return nil, err
	}
	if isDeeper(value, maxDepth) {
		return nil, fmt.Errorf("it nests deeper than %d levels", maxDepth)
	}
	return value, nil
}

// structOf is valueOf for what must be an object: a map, a struct, or nil.
func structOf(v any) (*structpb.Struct, error) {
	value, err := valueOf(v)
	if err != nil || value == nil {
		return nil, err
	}
	if _, isNull := value.GetKind().(*structpb.Value_NullValue); isNull {
		return nil, nil
	}
	object := value.GetStructValue()
	if object == nil {
		return nil, errors.New("it is no JSON object")
	}
	return object, nil
}

func isDeeper(value *structpb.Value, levels int) bool {
	switch kind := value.GetKind().(type) {
	case *structpb.Value_StructValue:
		for _, field := range kind.StructValue.GetFields() {
			if levels == 1 && isNested(field) || isDeeper(field, levels-1) {
				return true
			}
		}
	case *structpb.Value_ListValue:
		for _, item := range kind.ListValue.GetValues() {
			if levels == 1 && isNested(item) || isDeeper(item, levels-1) {
				return true
			}
		}
	}
	return false
}

func isNested(value *structpb.Value) bool {
	return value.GetStructValue() != nil || value.GetListValue() != nil
}

// decode puts a JSON value into what v points to, as encoding/json does.
func decode(value any, v any) error {
	text, err := json.Marshal(value)
	if err != nil {
		return err
	}
	return json.Unmarshal(text, v)
}

// plain answers a value as nil, bool, float64, string, []any or map[string]any.
func plain(value *structpb.Value) any {
	if value == nil {
		return nil
	}
	return value.AsInterface()
}

// timeOf answers the zero time where there is none.
func timeOf(stamp *timestamppb.Timestamp) time.Time {
	if stamp == nil {
		return time.Time{}
	}
	return stamp.AsTime()
}

func stampOf(t time.Time) *timestamppb.Timestamp {
	if t.IsZero() {
		return nil
	}
	return timestamppb.New(t)
}

// millis rounds up: what is not zero stays so, and a wait does not end before its time.
func millis(d time.Duration) uint32 {
	return uint32(min(max(0, (d+time.Millisecond-1)/time.Millisecond), math.MaxUint32))
}

func milliseconds(count uint32) time.Duration { return time.Duration(count) * time.Millisecond }

// optional answers nil for the zero value, which here always means that nothing was given.
func optional[T comparable](value T) *T {
	var zero T
	if value == zero {
		return nil
	}
	return &value
}

// word answers the name of an enum value as JSON spells it: of several names the first.
func word(value protoreflect.Enum) string {
	found := value.Descriptor().Values().ByNumber(value.Number())
	if found == nil {
		return ""
	}
	return string(found.Name())
}

func seconds(count uint32) time.Duration { return time.Duration(count) * time.Second }
