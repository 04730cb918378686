package bench

import (
	"fmt"
	"os"
	"path/filepath"
)

// makeDataDir makes a directory for the data of one measurement in parent, and returns its absolute path. The caller
// removes it.
func makeDataDir(parent string) (string, error) {
	parent, err := filepath.Abs(parent)
	if err != nil {
		return "", err
	}
	dir, err := os.MkdirTemp(parent, "causalstore-bench-")
	if err != nil {
		return "", fmt.Errorf("create a directory for the data: %w", err)
	}
	return dir, nil
}
