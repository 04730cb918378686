package command

import (
	"os"
	"path/filepath"
	"testing"
)

// The commands of the help text, one after the other, where nothing exists yet.
func TestIdentityCommandsMakeTheFoldersThatTheyWriteTo(t *testing.T) {
	dir := t.TempDir()
	trust := filepath.Join(dir, "new", "folder", "trust.yaml")
	for _, args := range [][]string{
		{"authority", "--dir", filepath.Join(dir, "eu"), "--trust-domain", "eu.example.com"},
		{"trust", "--store-id", "orders", "--data-center", "eu-west-1=" + filepath.Join(dir, "eu"), "--out", trust},
		{"issue", "--authority", filepath.Join(dir, "eu"), "--store-id", "orders", "--dc", "eu-west-1", "--role",
			"coordinator", "--member", "0",
			"--out", filepath.Join(dir, "tls", "0")},
	} {
		cmd := newIdentityCommand(Options{})
		cmd.SetArgs(args)
		if err := cmd.Execute(); err != nil {
			t.Fatalf("identity %s: %v", args[0], err)
		}
	}
	if b, err := os.ReadFile(trust); err != nil || len(b) == 0 {
		t.Errorf("the trust file: %d bytes, %v", len(b), err)
	}
}
