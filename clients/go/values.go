// Conversions between Go values and those of messages: JSON values, times, durations, optional fields, enum names.

package taskyard

import (
	"encoding/json"
	"fmt"
	"math"
	"time"

	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/structpb"
	"google.golang.org/protobuf/types/known/timestamppb"
)

// maxDepth is how many levels of lists and objects the server accepts. It cannot read a message with many more.
const maxDepth = 30

// valueOf returns what encoding/json makes of v as a message; nil stands for no value. The error names the field.
func valueOf(field string, v any) (*structpb.Value, error) {
	if v == nil {
		return nil, nil
	}
	text, err := json.Marshal(v)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", field, err)
	}
	value := new(structpb.Value)
	if err := value.UnmarshalJSON(text); err != nil {
		return nil, fmt.Errorf("%s: %w", field, err)
	}
	if found := firstInexact(text, field); found != "" {
		return nil, fmt.Errorf("%s: an integer beyond 2^53 would lose digits", found)
	}
	if isDeeper(value, maxDepth) {
		return nil, fmt.Errorf("%s: it nests deeper than %d levels", field, maxDepth)
	}
	return value, nil
}

// structOf is valueOf for what must be an object: a map, a struct, or nil.
func structOf(field string, v any) (*structpb.Struct, error) {
	value, err := valueOf(field, v)
	if err != nil || value == nil {
		return nil, err
	}
	if _, isNull := value.GetKind().(*structpb.Value_NullValue); isNull {
		return nil, nil
	}
	object := value.GetStructValue()
	if object == nil {
		return nil, fmt.Errorf("%s: it is no JSON object", field)
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

// decode stores a JSON value in what v points to, as encoding/json does.
func decode(value any, v any) error {
	text, err := json.Marshal(value)
	if err != nil {
		return err
	}
	return json.Unmarshal(text, v)
}

// anyOf returns a value as nil, bool, float64, string, []any or map[string]any.
func anyOf(value *structpb.Value) any {
	if value == nil {
		return nil
	}
	return value.AsInterface()
}

// timeOf returns the zero time for nil.
func timeOf(timestamp *timestamppb.Timestamp) time.Time {
	if timestamp == nil {
		return time.Time{}
	}
	return timestamp.AsTime()
}

// timestampOf returns nil for the zero time.
func timestampOf(t time.Time) *timestamppb.Timestamp {
	if t.IsZero() {
		return nil
	}
	return timestamppb.New(t)
}

// toMillis rounds up: a positive duration does not become 0, and a wait does not end before its time.
func toMillis(d time.Duration) uint32 {
	return uint32(min(max(0, (d+time.Millisecond-1)/time.Millisecond), math.MaxUint32))
}

func fromMillis(count uint32) time.Duration { return time.Duration(count) * time.Millisecond }

func fromSecs(count uint32) time.Duration { return time.Duration(count) * time.Second }

// optional returns nil for the zero value, which always means here that nothing was given.
func optional[T comparable](value T) *T {
	var zero T
	if value == zero {
		return nil
	}
	return &value
}

// enumName returns the name of an enum value as JSON shows it: the first of several names. It returns "" for a number
// without a name.
func enumName(value protoreflect.Enum) string {
	found := value.Descriptor().Values().ByNumber(value.Number())
	if found == nil {
		return ""
	}
	return string(found.Name())
}
