import java.lang.reflect.Method;
import java.lang.reflect.Modifier;
import java.util.Arrays;
import java.util.Collection;
import java.util.List;
import java.util.Optional;

/**
 * Prints the ranges that brokers of one release advertise: {@code api KEY NAME MIN MAX} and {@code feature NAME MIN MAX LEVEL}.
 *
 * Everything is asked by reflection, so that one class runs with the jars of every release from 0.11 on. The argument is
 * the listener's type, ZK_BROKER or BROKER; releases before 2.8 have one kind of listener only.
 */
public class ReleaseRanges {
    private static final String KEYS = "org.apache.kafka.common.protocol.ApiKeys";
    private static final String COMMON = "org.apache.kafka.server.common.";

    public static void main(String[] arguments) throws Exception {
        for (Object key : keys(arguments[0])) {
            short[] range = range(key, arguments[0]);
            if (range[0] <= range[1]) {
                System.out.println("api " + field(key, "id") + " " + field(key, "name") + " " + range[0] + " " + range[1]);
            }
        }
        Class<?> metadataVersion = find(COMMON + "MetadataVersion");
        if (metadataVersion != null && arguments[0].equals("BROKER")) {
            printFeatures(metadataVersion);
        }
    }

    private static Collection<?> keys(String listener) throws Exception {
        Class<?> keys = Class.forName(KEYS);
        Class<?> types = find("org.apache.kafka.common.message.ApiMessageType$ListenerType");
        if (types != null) {
            return (Collection<?>) keys.getMethod("apisForListener", types).invoke(null, constant(types, listener));
        }
        Method enabled = method(keys, "enabledApis");  // 2.7 has some that no broker serves yet
        return enabled != null ? (Collection<?>) enabled.invoke(null) : Arrays.asList(keys.getEnumConstants());
    }

    private static short[] range(Object key, String listener) throws Exception {
        Class<?> keys = key.getClass().isEnum() ? key.getClass() : key.getClass().getSuperclass();
        Class<?> types = find("org.apache.kafka.common.message.ApiMessageType$ListenerType");
        Method answered = method(keys, "toApiVersionForApiResponse", boolean.class, types);
        if (answered != null) {  // since 4.0 it is not only those that are served: KAFKA-18659
            Optional<?> found = (Optional<?>) answered.invoke(key, false, constant(types, listener));
            if (!found.isPresent()) {
                return new short[] {0, -1};
            }
            return new short[] {(short) call(found.get(), "minVersion"), (short) call(found.get(), "maxVersion")};
        }
        Method latest = method(keys, "latestVersion", boolean.class);  // false: without those that are unstable
        Object highest = latest != null ? latest.invoke(key, false) : call(key, "latestVersion");
        return new short[] {(short) call(key, "oldestVersion"), (short) highest};
    }

    private static void printFeatures(Class<?> metadataVersion) throws Exception {
        Method production = method(metadataVersion, "latestProduction");
        Object latest = (production != null ? production : metadataVersion.getMethod("latest")).invoke(null);
        Object oldest;
        try {
            oldest = metadataVersion.getField("MINIMUM_VERSION").get(null);
        } catch (NoSuchFieldException before4) {
            oldest = metadataVersion.getField("MINIMUM_KRAFT_VERSION").get(null);
        }
        Object level = call(latest, "featureLevel");
        System.out.println("feature metadata.version " + call(oldest, "featureLevel") + " " + level + " " + level);
        Class<?> features = find(COMMON + "Feature");
        features = features != null ? features : find(COMMON + "Features");
        if (features == null || !features.isEnum()) {  // of before 3.8 it is something else
            return;
        }
        for (Object feature : (List<?>) features.getField("PRODUCTION_FEATURES").get(null)) {
            Method lowest = method(features, "minimumProduction");
            Method first = method(features, "defaultLevel", metadataVersion);
            first = first != null ? first : method(features, "defaultValue", metadataVersion);
            short highest = (short) call(feature, "latestProduction");
            if (highest > 0) {  // Java's BrokerFeatures.defaultSupportedFeatures
                System.out.println("feature " + call(feature, "featureName") + " "
                    + (lowest != null ? lowest.invoke(feature) : 0) + " " + highest + " " + first.invoke(feature, latest));
            }
        }
    }

    private static Class<?> find(String name) {
        try {
            return Class.forName(name);
        } catch (ClassNotFoundException none) {
            return null;
        }
    }

    private static Method method(Class<?> owner, String name, Class<?>... parameters) {
        try {
            return owner.getMethod(name, parameters);
        } catch (NoSuchMethodException none) {
            return null;
        }
    }

    private static Object call(Object target, String name) throws Exception {
        Method found = target.getClass().getMethod(name);
        if (!Modifier.isPublic(target.getClass().getModifiers())) {
            found = target.getClass().getSuperclass().getMethod(name);  // a constant with a body of its own
        }
        return found.invoke(target);
    }

    private static Object field(Object key, String name) throws Exception {
        return Class.forName(KEYS).getField(name).get(key);
    }

    private static Object constant(Class<?> types, String name) {
        for (Object each : types.getEnumConstants()) {
            if (each.toString().equals(name)) {
                return each;
            }
        }
        throw new IllegalArgumentException(name);
    }
}
