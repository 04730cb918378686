//go:build !race

package wal

const raceDetector = false
