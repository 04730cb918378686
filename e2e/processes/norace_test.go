//go:build !race

package processes_test

const manyKeysCount, mostKeysCount = 50_000, 1_000_000
