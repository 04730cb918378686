package contract

import (
	"reflect"
	"strings"
	"testing"
)

func TestAFileOfUsersIsReadAndWritten(t *testing.T) {
	users, err := ParseUsers([]byte(`# who may connect
user app on >old #2bb80d537b1da3e38bd30361aa855686bde0eacd7162fef6a25fe97bf527a25b ~* &* +@all

user default on nopass sanitize-payload allkeys allchannels allcommands
user gone off ~* +@all
`))
	want := []User{
		{Name: "app", Passwords: []PasswordHash{HashPassword([]byte("old")), HashPassword([]byte("secret"))}},
		{Name: "default", NoPass: true},
		{Name: "gone", Off: true},
	}
	if err != nil || !reflect.DeepEqual(users, want) {
		t.Fatalf("got %v, %v", users, err)
	}
	text := FormatUsers(users)
	again, err := ParseUsers([]byte(text))
	if err != nil || !reflect.DeepEqual(again, want) || strings.Contains(text, "old") {
		t.Errorf("written as %q, read again as %v, %v", text, again, err)
	}
	if shown := users[0].String(); shown != "user app on #(hidden) #(hidden) ~* &* +@all" {
		t.Errorf("shown as %q", shown)
	}
}

func TestABadFileOfUsersIsRefusedWithoutShowingIt(t *testing.T) {
	for text, want := range map[string]string{
		"app on >hunter2 ~* +@all":                                   "line 1 is not: user NAME",
		"user app on hunter2 ~* +@all":                               "rule 2 of user app is unknown",
		"user app on >hunter2 ~hunter2:* +@all":                      "rule 3 of user app is unknown",
		"\nuser app on >hunter2 +@all":                               "line 2: user app would not have all rights",
		"user app on ~* +@all":                                       "has no password",
		"user app on > ~* +@all":                                     "rule 2 of user app is unknown",
		"user app on #hunter2 ~* +@all":                              "rule 2 of user app is unknown",
		"user app on nopass >hunter2 ~* +@all":                       "nopass and a password",
		"user app on >hunter2 >hunter2a >hunter2b ~* +@all":          "give at most 2",
		"user app on >hunter2 ~* +@all\nuser app on nopass ~* +@all": "line 2: user app is there twice",
		"user hünter2 on nopass ~* +@all":                            "visible ASCII",
		strings.Repeat("x", MaxUsersFileBytes+1):                     "more than the limit",
		strings.Repeat("user a", MaxUsersFileBytes/100):              "rule 1 of user auser is unknown",
	} {
		_, err := ParseUsers([]byte(text))
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%.60q: %v, want %q", text, err, want)
		}
	}
}
