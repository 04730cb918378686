package local_test

import (
	"fmt"
	"testing"
)

// A client of a data center writes two keys in one step, again and again, and another one, at another sidecar, stores
// what SORT finds there. It never stores one key of a step without the other.
func TestSortStoresWhatWasThereAtOneTime(t *testing.T) {
	d := startExact(t, 2)
	ctx, ports := t.Context(), d.Endpoints()[0].Sidecars
	writer, sorter := oneSession(t, ports[0]), oneSession(t, ports[1])
	awaitCollections(t, writer)
	if err := writer.RPush(ctx, "list", 1, 2).Err(); err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for i := range 300 {
			if err := writer.MSet(ctx, "w1", i, "w2", 1000-i).Err(); err != nil {
				t.Errorf("MSET: %v", err)
				return
			}
		}
	}()
	for n, isDone := 0, false; !isDone; n++ {
		select {
		case <-done:
			isDone = n > 10
		default:
		}
		if err := sorter.Do(ctx, "SORT", "list", "BY", "nosort", "GET", "w*", "STORE", fmt.Sprint("dst", n%2)).Err(); err != nil {
			t.Fatalf("SORT: %v", err)
		}
		stored, err := sorter.LRange(ctx, fmt.Sprint("dst", n%2), 0, -1).Result()
		if err != nil || len(stored) != 2 {
			t.Fatalf("%q, %v", stored, err)
		}
		sum := 0
		for _, text := range stored {
			i := 0
			_, _ = fmt.Sscan(text, &i)
			sum += i
		}
		if stored[0] != "" && sum != 1000 {
			t.Fatalf("%q are not of one step", stored)
		}
	}
}
