package contract

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
)

// Bounds of a file of users.
const (
	MaxUsers = 1000
	// MaxPasswords of a user: the new one and the old one, while clients change from one to the other.
	MaxPasswords = 2
	// MaxUsersFileBytes is the size of the largest file, which is that of a Kubernetes Secret.
	MaxUsersFileBytes = 1 << 20
)

// DefaultUser is the user that clients are until they authenticate, and that AUTH with a password alone names.
const DefaultUser = "default"

// User is one whom Redis clients may authenticate as. Every user may do everything.
type User struct {
	Name string
	// Off refuses the user.
	Off bool
	// NoPass accepts any password. Clients are the user "default" from the start if it has this.
	NoPass bool
	// Passwords are SHA-256 digests, of which a client must know one.
	Passwords []PasswordHash
}

// PasswordHash is the SHA-256 digest of a password, as in Redis' ACL.
type PasswordHash [sha256.Size]byte

// HashPassword returns the digest of a password.
func HashPassword(password []byte) PasswordHash { return sha256.Sum256(password) }

// ParsePasswordHash reads a digest in the form of Redis: # and 64 hexadecimal digits.
func ParsePasswordHash(text string) (h PasswordHash, ok bool) {
	digits, ok := strings.CutPrefix(text, "#")
	if !ok || len(digits) != hex.EncodedLen(len(h)) {
		return h, false
	}
	_, err := hex.Decode(h[:], []byte(digits))
	return h, err == nil
}

// String returns the line of a user in a file of users, without passwords: what it returns may be shown and logged.
func (u User) String() string { return u.line("#(hidden)") }

// line returns the line of a user, with hidden in the place of each password unless it is empty.
func (u User) line(hidden string) string {
	words := []string{"user", u.Name, "on"}
	if u.Off {
		words[2] = "off"
	}
	if u.NoPass {
		words = append(words, "nopass")
	}
	for _, p := range u.Passwords {
		if hidden == "" {
			words = append(words, "#"+hex.EncodeToString(p[:]))
		} else {
			words = append(words, hidden)
		}
	}
	return strings.Join(append(words, "~*", "&*", "+@all"), " ")
}

// FormatUsers returns a file of users.
func FormatUsers(users []User) string {
	var b strings.Builder
	for _, u := range users {
		b.WriteString(u.line("") + "\n")
	}
	return b.String()
}

// ParseUsers reads a file of users. It has the format of Redis' ACL files: a line for each user, such as
//
//	user app on >password #2bb80d537b1da3e38bd30361aa855686bde0eacd7162fef6a25fe97bf527a25b ~* &* +@all
//
// Rights other than all are refused. Errors tell the place, and never what is there: it may be a password.
func ParseUsers(text []byte) ([]User, error) {
	if len(text) > MaxUsersFileBytes {
		return nil, fmt.Errorf("the file has %d bytes, more than the limit of %d", len(text), MaxUsersFileBytes)
	}
	var users []User
	number := 0
	for line := range strings.Lines(string(text)) {
		number++
		words := strings.Fields(line)
		if len(words) == 0 || strings.HasPrefix(words[0], "#") {
			continue
		}
		if words[0] != "user" || len(words) < 2 {
			return nil, fmt.Errorf("line %d is not: user NAME RULE...", number)
		}
		u, err := parseUser(words[1], words[2:])
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", number, err)
		}
		if slices.ContainsFunc(users, func(v User) bool { return v.Name == u.Name }) {
			return nil, fmt.Errorf("line %d: user %s is there twice", number, u.Name)
		}
		if users = append(users, u); len(users) > MaxUsers {
			return nil, fmt.Errorf("there are more than %d users", MaxUsers)
		}
	}
	return users, nil
}

func parseUser(name string, rules []string) (User, error) {
	if !ValidUserName(name) {
		return User{}, fmt.Errorf("the name of a user has up to %d visible ASCII characters", maxUserNameBytes)
	}
	u := User{Name: name, Off: true}
	keys, commands := false, false
	for i, rule := range rules {
		hash, isHash := ParsePasswordHash(rule)
		switch {
		case rule == "on" || rule == "off":
			u.Off = rule == "off"
		case rule == "nopass":
			u.NoPass = true
		case isHash:
			u.Passwords = append(u.Passwords, hash)
		case len(rule) > 1 && rule[0] == '>':
			u.Passwords = append(u.Passwords, HashPassword([]byte(rule[1:])))
		case rule == "~*" || rule == "allkeys":
			keys = true
		case rule == "+@all" || rule == "allcommands":
			commands = true
		case rule == "&*" || rule == "allchannels" || rule == "sanitize-payload":
		default:
			return u,
				fmt.Errorf(
					"rule %d of user %s is unknown; the rules are on, off, nopass, >PASSWORD, #SHA256 and, since "+
						"every user may do everything, ~* &* +@all", i+1, name)
		}
	}
	switch {
	case !keys || !commands:
		return u, fmt.Errorf("user %s would not have all rights, and others are not supported; add ~* &* +@all", name)
	case u.NoPass && len(u.Passwords) > 0:
		return u, fmt.Errorf("user %s has nopass and a password; remove one of them", name)
	case !u.Off && !u.NoPass && len(u.Passwords) == 0:
		return u, fmt.Errorf("user %s is on and has no password; add >PASSWORD, #SHA256 or nopass", name)
	case len(u.Passwords) > MaxPasswords:
		return u, fmt.Errorf("user %s has %d passwords; give at most %d, the new one and the old one", name,
			len(u.Passwords), MaxPasswords)
	}
	return u, nil
}

const maxUserNameBytes = 253

// ValidUserName reports whether clients and files can name a user so.
func ValidUserName(name string) bool {
	return name != "" && len(name) <= maxUserNameBytes && !strings.ContainsFunc(name, func(r rune) bool {
		return r < '!' || r > '~'
	})
}
