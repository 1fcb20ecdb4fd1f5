package main

import (
	"testing"

	"google.golang.org/protobuf/proto"
)

func TestTasksHaveAboutThreeHundredBytesAndAreAllDifferent(t *testing.T) {
	tasks := newTasks(&Options{Agents: 1000, Action: "click"})
	seen := map[string]bool{}
	for range 3000 {
		task := tasks.One()
		if size := proto.Size(task); size < 270 || size > 330 {
			t.Fatalf("a task of %d bytes: %v", size, task)
		}
		seen[task.GetParams().GetFields()["url"].GetStringValue()] = true
	}
	if len(seen) != 3000 {
		t.Errorf("%d of 3,000 tasks are repeated", 3000-len(seen))
	}
}

func TestTasksAreOfAllAgentsInTurn(t *testing.T) {
	tasks := newTasks(&Options{Agents: 7, Action: "click"})
	counts := map[string]int{}
	for _, task := range tasks.Many(70).GetTasks() {
		counts[task.GetAgentId()]++
	}
	for agent, count := range counts {
		if count != 10 {
			t.Errorf("%d tasks of %s, not 10", count, agent)
		}
	}
	if len(counts) != 7 {
		t.Errorf("tasks of %d agents, not 7", len(counts))
	}
}

func TestEachBatchIsOfTheNextAgent(t *testing.T) {
	tasks := newTasks(&Options{Agents: 3, Action: "click"})
	agents := map[string]bool{}
	for range 3 {
		batch := tasks.Batch(50)
		if len(batch.GetTasks()) != 50 {
			t.Errorf("%d tasks, not 50", len(batch.GetTasks()))
		}
		agents[batch.GetAgentId()] = true
	}
	if len(agents) != 3 {
		t.Errorf("three batches of %d agents", len(agents))
	}
}
