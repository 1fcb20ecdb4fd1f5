// The agent program among the examples, killed while a person is asked.

package taskyard

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestTheAgentProgramGoesOnWhereItWasKilled(t *testing.T) {
	client, ctx := connect(t, address), testContext(t)
	binary := filepath.Join(t.TempDir(), "program")
	if said, err := exec.CommandContext(ctx, "go", "build", "-o", binary, "./example/program").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, said)
	}
	program := func() *exec.Cmd {
		command := exec.CommandContext(ctx, binary)
		command.Env = append(os.Environ(), "TASKYARD_ADDRESS="+address, "TASKYARD_NAMESPACE="+client.namespace)
		return command
	}
	killed := program()
	if err := killed.Start(); err != nil {
		t.Fatal(err)
	}
	open := nextQuestion(ctx, t, client)
	_ = killed.Process.Kill()
	_ = killed.Wait()
	must(client.Answer(ctx, open.TaskID, open.QuestionID, "yes"))(t)
	// What was said before it was killed comes first.
	printed := []string{
		fmt.Sprintf("To answer it: taskyard answer %s publish yes", open.TaskID),
		"This is what is known of tides. ",
		"This is what is known of 20 parts in 2000000 characters. ",
		"done published 2000000 characters \n",
	}
	if got := string(must(program().Output())(t)); got != strings.Join(printed, "\n") {
		t.Errorf("%q", got)
	}
	steps := []string{"work outline", "ends join", "ends child report", "work summary", "answer publish"}
	if got := stepsOf(ctx, t, client, open.TaskID); !slices.Equal(got, steps) {
		t.Error(got)
	}
	var children []string
	for each, err := range client.List(ctx, ListOptions{ParentID: open.TaskID}) {
		children = append(children, fmt.Sprint(must(each, err)(t).ChildName, " ", each.State))
	}
	if len(children) != 21 || !slices.Contains(children, "part-19 done") || children[20] != "report done" {
		t.Error(children)
	}
}

// nextQuestion returns a question once a task of the namespace asks one.
func nextQuestion(ctx context.Context, t *testing.T, client *Client) *OpenQuestion {
	t.Helper()
	for event, err := range client.Watch(ctx, WatchOptions{IncludeCurrent: true}) {
		if must(event, err)(t).Task.State != StateParked {
			continue
		}
		for open, err := range client.Questions(ctx, QuestionOptions{}) {
			return must(open, err)(t)
		}
	}
	return nil
}
