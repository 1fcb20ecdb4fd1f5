// Inputs and outputs: what travels in params and results, what in payloads, and what is refused.

package taskyard

import (
	"encoding/json"
	"strings"
	"testing"

	taskyardv1 "github.com/taskyard/taskyard/clients/go/v1"
)

const beyond = 9_007_199_254_740_993 // 2^53 + 1, which no double holds.

type order struct {
	Lines []line `json:"lines"`
}

type line struct {
	ID    int64   `json:"id"`
	Price float64 `json:"price"`
}

func TestIntegerBeyondADoubleInParamsIsRefusedWithItsField(t *testing.T) {
	f := &fakeServer{}
	client := serve(t, f)
	task := NewTask{Action: "echo", Params: order{[]line{{ID: 1}, {ID: beyond}}}}
	for name, submit := range map[string]func() error{
		"alone": func() error { _, err := client.Submit(testContext(t), task); return err },
		"in a batch": func() error {
			_, err := client.SubmitBatch(testContext(t), NewBatch{Tasks: []NewTask{task}})
			return err
		},
	} {
		err := submit()
		if CodeOf(err) != CodeBadRequest || !strings.Contains(err.Error(), "params.lines[1].id: 9007199254740993") {
			t.Errorf("%s: %v", name, err)
		}
	}
	if len(f.headers) > 0 {
		t.Error("it was sent")
	}
	if _, err := client.Resolve(testContext(t), "tsk_1", map[string]uint64{"n": 1 << 60}); CodeOf(err) != CodeBadRequest ||
		!strings.Contains(err.Error(), "result.n: 1152921504606846976") {
		t.Error(err)
	}
}

func TestNumbersThatADoubleHoldsAreParams(t *testing.T) {
	for _, each := range []string{
		"9007199254740992", "-9007199254740992", "0.1234567890123456789", "1e300", "100000000000000000000", `"9007199254740993"`,
	} {
		if params, err := structOf("params", map[string]json.RawMessage{"n": json.RawMessage(each)}); err != nil {
			t.Error(each, params, err)
		}
	}
	if _, err := structOf("params", map[string]float64{"n": 1e20}); err != nil {
		t.Error(err)
	}
}

func TestInputIsParamsWhereTheseHoldItElseAPayload(t *testing.T) {
	f := &fakeServer{}
	client := serve(t, f)
	for _, input := range []any{order{[]line{{1, 0.5}}}, order{[]line{{beyond, 0.5}}}, []int{1}, Payload{[]byte{0xff}, "fernet"}} {
		must(client.Submit(testContext(t), NewTask{Action: "echo", Input: input}))(t)
	}
	if sent := f.submits[0]; sent.Input != nil || len(sent.GetParams().GetFields()) != 1 {
		t.Error(sent)
	}
	for i, want := range []string{`{"lines":[{"id":9007199254740993,"price":0.5}]}`, "[1]"} {
		sent := f.submits[i+1]
		if sent.Params != nil || sent.GetInput().Encoding != nil || string(sent.GetInput().GetData()) != want {
			t.Error(sent)
		}
	}
	if sent := f.submits[3]; sent.GetInput().GetEncoding() != "fernet" || string(sent.GetInput().GetData()) != "\xff" {
		t.Error(sent)
	}
	both := NewTask{Action: "echo", Input: 1, Params: map[string]int{}}
	if _, err := client.Submit(testContext(t), both); CodeOf(err) != CodeBadRequest {
		t.Error(err)
	}
}

func TestTaskIsDecodedFromParamsAndResultOrFromItsPayloads(t *testing.T) {
	payload := &taskyardv1.Payload{Data: []byte(`{"lines":[{"id":9007199254740993}]}`)}
	task := taskOf(&taskyardv1.Task{Input: payload, Output: payload})
	var input, output order
	if err := task.DecodeParams(&input); err != nil || input.Lines[0].ID != beyond {
		t.Error(input, err)
	}
	if err := task.DecodeResult(&output); err != nil || output.Lines[0].ID != beyond {
		t.Error(output, err)
	}
	task.Input.Encoding = "fernet"
	if err := task.DecodeParams(&input); err == nil || !strings.Contains(err.Error(), "fernet") {
		t.Error(err)
	}
}
