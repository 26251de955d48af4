// Follows the config maps of a namespace with fabric8's client, by a watch and by an informer, and
// prints a line for each thing that it hears of: `watch ADDED a`, `informer updated a`.
// Says `ready` when both are there. Ends when its standard input does.
//
//     java -cp 'LIBRARIES/*' Follow.java NAMESPACE        with KUBECONFIG set

import io.fabric8.kubernetes.api.model.ConfigMap;
import io.fabric8.kubernetes.client.KubernetesClient;
import io.fabric8.kubernetes.client.KubernetesClientBuilder;
import io.fabric8.kubernetes.client.Watcher;
import io.fabric8.kubernetes.client.WatcherException;
import io.fabric8.kubernetes.client.informers.ResourceEventHandler;

public class Follow {
    static synchronized void say(String... words) {
        System.out.println(String.join(" ", words));
        System.out.flush();
    }

    static String name(ConfigMap map) {
        return map.getMetadata().getName();
    }

    public static void main(String[] arguments) throws Exception {
        String namespace = arguments[0];
        try (KubernetesClient client = new KubernetesClientBuilder().build()) {
            var maps = client.configMaps().inNamespace(namespace);
            var informer = maps.inform(new ResourceEventHandler<ConfigMap>() {
                @Override public void onAdd(ConfigMap map) { say("informer added", name(map)); }
                @Override public void onUpdate(ConfigMap before, ConfigMap map) {
                    say("informer updated", name(map));
                }
                @Override public void onDelete(ConfigMap map, boolean isStale) {
                    say("informer deleted", name(map));
                }
            });
            var watch = maps.watch(new Watcher<ConfigMap>() {
                @Override public void eventReceived(Action action, ConfigMap map) {
                    say("watch", action.toString(), name(map));
                }
                @Override public void onClose(WatcherException problem) {
                    say("watch closed", String.valueOf(problem));
                }
            });
            say("ready", client.getHttpClient().getClass().getSimpleName());
            while (System.in.read() >= 0) { }
            watch.close();
            informer.close();
        }
    }
}
