package edge

import (
	"errors"
	"fmt"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protopath"
	"google.golang.org/protobuf/reflect/protorange"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/anypb"
	"sigs.k8s.io/yaml"
)

// files collects files and the first error.
type files struct {
	content map[string]string
	err     error
}

// add adds a message as a file.
func (f *files) add(name string, m proto.Message) {
	text, err := encode(m)
	if err != nil {
		f.err = errors.Join(f.err, fmt.Errorf("write %s: %w", name, err))
		return
	}
	if f.content == nil {
		f.content = map[string]string{}
	}
	f.content[name] = text
}

// validate checks a message by the rules of Envoy's API, and the messages inside of it; the generated Validate stops at
// an Any.
func validate(m proto.Message) error {
	return protorange.Range(m.ProtoReflect(), func(at protopath.Values) error {
		inner, ok := at.Index(-1).Value.Interface().(protoreflect.Message)
		if !ok {
			return nil
		}
		if v, ok := inner.Interface().(interface{ Validate() error }); ok {
			return v.Validate()
		}
		return nil
	})
}

// encode prints a message as YAML, always in the same way: the JSON of protobuf has random spaces and no order.
func encode(m proto.Message) (string, error) {
	if err := validate(m); err != nil {
		return "", err
	}
	json, err := protojson.MarshalOptions{UseProtoNames: true}.Marshal(m)
	if err != nil {
		return "", err
	}
	text, err := yaml.JSONToYAML(json)
	return string(text), err
}

// resources returns what Envoy reads from a file with the resources of one kind.
func resources(all ...proto.Message) *discoveryv3.DiscoveryResponse {
	r := &discoveryv3.DiscoveryResponse{}
	for _, m := range all {
		r.Resources = append(r.Resources, pack(m))
	}
	return r
}

// pack wraps the configuration of an extension.
func pack(m proto.Message) *anypb.Any {
	a, err := anypb.New(m)
	if err != nil {
		panic(err) // unreachable: only strings that are not UTF-8 cannot be encoded, and check admits none
	}
	return a
}

// currentDir is the link in ConfigDir to the folder with the files of the present ConfigMap. Kubernetes replaces it by
// a rename, which changes all files at once, and makes the links to new files beside it only afterwards: an Envoy that
// looked for those would find a file missing and refuse the configuration for good.
const currentDir = ConfigDir + "/..data"

// fromFile is the source of what is in a file of the ConfigMap. The rename is what is watched.
func fromFile(name string) *corev3.ConfigSource {
	return &corev3.ConfigSource{ResourceApiVersion: corev3.ApiVersion_V3,
		ConfigSourceSpecifier: &corev3.ConfigSource_PathConfigSource{
			PathConfigSource: &corev3.PathConfigSource{Path: currentDir + "/" + name,
				WatchedDirectory: &corev3.WatchedDirectory{Path: ConfigDir}}}}
}
