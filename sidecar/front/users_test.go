package front

import (
	"log/slog"
	"net"
	"testing"
	"time"

	"github.com/causalstore/causalstore/contract"
)

func TestALoginThatMeetsTheRemovalOfItsUserFails(t *testing.T) {
	app := contract.User{Name: "app", Passwords: []contract.PasswordHash{contract.HashPassword([]byte("secret"))}}
	s := NewServer(Options{Limits: Limits{}.WithDefaults(), Users: []contract.User{app}, Clock: time.Now,
		Logger: slog.New(slog.DiscardHandler)})
	ours, theirs := net.Pipe()
	defer theirs.Close()
	c := s.NewClient(ours, nil) // SetUsers does not see it, as if it had looked before the login
	if c.User() != nil {
		t.Error("the client is a user before it has authenticated")
	}
	user := s.Users().match([]byte("app"), []byte("secret"))
	if user == nil {
		t.Fatal("the password is refused")
	}
	other := app
	other.Name = "other"
	s.SetUsers([]contract.User{other})
	if c.login(user) || c.User() != nil {
		t.Error("the client is a user that does not exist any more")
	}
}
