// Command define makes a CustomResourceDefinition with client-go's clientset for them, which sends
// protobuf, waits until it is established, changes it, and prints how it then stands as JSON.
// The definition is read as JSON from standard input; KUBECONFIG says where it goes.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"time"

	extensions "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/client/clientset/clientset"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
)

func main() {
	if err := define(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func define() error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	var wanted extensions.CustomResourceDefinition
	if err := json.NewDecoder(os.Stdin).Decode(&wanted); err != nil {
		return err
	}
	config, err := clientcmd.BuildConfigFromFlags("", os.Getenv("KUBECONFIG"))
	if err != nil {
		return err
	}
	config.ContentType = "application/vnd.kubernetes.protobuf"
	clients, err := clientset.NewForConfig(config)
	if err != nil {
		return err
	}
	definitions := clients.ApiextensionsV1().CustomResourceDefinitions()
	made, err := definitions.Create(ctx, &wanted, meta.CreateOptions{})
	if err != nil {
		return err
	}
	for !established(made) {
		time.Sleep(50 * time.Millisecond)
		if made, err = definitions.Get(ctx, wanted.Name, meta.GetOptions{}); err != nil {
			return err
		}
	}
	made.Spec.Names.ShortNames = append(made.Spec.Names.ShortNames, "defined")
	if made, err = definitions.Update(ctx, made, meta.UpdateOptions{}); err != nil {
		return err
	}
	return json.NewEncoder(os.Stdout).Encode(made)
}

func established(definition *extensions.CustomResourceDefinition) bool {
	for _, condition := range definition.Status.Conditions {
		if condition.Type == extensions.Established && condition.Status == extensions.ConditionTrue {
			return true
		}
	}
	return false
}
