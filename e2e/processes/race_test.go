//go:build race

package processes_test

// The race detector makes every key about ten times as expensive.
const manyKeysCount, mostKeysCount = 10_000, 100_000
