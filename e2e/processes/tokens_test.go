package processes_test

import (
	"bytes"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	goredis "github.com/redis/go-redis/v9"

	"github.com/causalstore/causalstore/contract"
)

func token(t *testing.T, c *goredis.Client) string {
	t.Helper()
	token, err := c.Do(t.Context(), "CAUSAL", "TOKEN").Text()
	must(t, err)
	return token
}

// isSignedWith reports whether a token carries the certificate in a file.
func isSignedWith(t *testing.T, token, file string) bool {
	t.Helper()
	raw, err := base64.RawURLEncoding.DecodeString(token)
	must(t, err)
	text, err := os.ReadFile(file)
	must(t, err)
	block, _ := pem.Decode(text)
	return bytes.Contains(raw, block.Bytes)
}

// Data centers a and b are one region, c is another one, each with its own authority; they share no secret.
func TestATokenOfOneRegionIsResumedInTheOtherUntilThatDoesNotTrustItAnyMore(t *testing.T) {
	certs := newCertificates(t)
	east, west := certs.authority("east", "east.example.com"), certs.authority("west", "west.example.com")
	certs.issueDC(east, "a")
	certs.issueDC(east, "b")
	certs.issueDC(west, "c")
	certs.run("trust", "--store-id", "test", "--out", certs.trustFile(), "--data-center", "a="+east, "--data-center",
		"b="+east, "--data-center", "c="+west)
	d := deployWith(t, certs, nil)
	a, c := d.client("a"), d.client("c")
	resume := func(at *goredis.Client, token, key, want string) {
		t.Helper()
		eventually(t, "the token to be resumed", func() error {
			err := at.Do(t.Context(), "CAUSAL", "RESUME", token).Err()
			if err != nil && !strings.HasPrefix(err.Error(), "UNAVAILABLE") {
				t.Fatal(err)
			}
			return err
		})
		if got, err := at.Get(t.Context(), key).Result(); err != nil || got != want {
			t.Errorf("after RESUME: %q, %v; want %q", got, err, want)
		}
	}
	must(t, a.Set(t.Context(), "k", "1", 0).Err())
	first := token(t, a)
	t.Logf("the token has %d bytes", len(first))
	resume(c, first, "k", "1")
	must(t, c.Set(t.Context(), "back", "1", 0).Err())
	resume(a, token(t, c), "back", "1")

	// A new certificate signs new tokens; those of the one before stay valid.
	renewed := certs.issue(east, "a", "sidecar", "shop")
	var second string
	eventually(t, "a token with the new certificate", func() error {
		if second = token(t, a); !isSignedWith(t, second, renewed+".crt") {
			return errors.New("it has the one before")
		}
		return nil
	})
	if isSignedWith(t, first, renewed+".crt") {
		t.Fatal("the first token has the new certificate")
	}
	resume(c, first, "k", "1")
	resume(c, second, "k", "1")

	// What is not a token of this store costs nobody anything else.
	if err := c.Do(t.Context(), "CAUSAL", "RESUME", second+"AAAA").Err(); err == nil ||
		!strings.Contains(err.Error(), "altered") {
		t.Errorf("an altered token: %v", err)
	}

	// c does not trust the region of a any more.
	certs.trustAt(certs.trustFile(), func(trust *contract.Trust) { delete(trust.Bundles, "east.example.com") })
	eventually(t, "the tokens of the other region to be refused", func() error {
		for _, token := range []string{first, second} {
			err := c.Do(t.Context(), "CAUSAL", "RESUME", token).Err()
			if err == nil || !strings.Contains(err.Error(), "does not trust") {
				return fmt.Errorf("RESUME answered %q", fmt.Sprint(err))
			}
		}
		return nil
	})
	if err := c.Do(t.Context(), "CAUSAL", "RESUME", token(t, c)).Err(); err != nil &&
		!strings.HasPrefix(err.Error(), "UNAVAILABLE") {
		t.Errorf("a token of its own: %v", err)
	}
	for name, p := range d.procs {
		log, err := os.ReadFile(p.log)
		must(t, err)
		if bytes.Contains(log, []byte("tokenKeyFile")) {
			t.Errorf("%s (%s) speaks of a token key", name, filepath.Base(p.log))
		}
	}
}
