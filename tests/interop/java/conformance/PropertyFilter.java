// An entry filter for a real broker, with the rule of `PropertyEntryFilter` in refimpl/proposals/entry_filters.py. Beyond it, entries
// whose header has the property `put-off` are put off so many times, on subscriptions that have the property `put-off` themselves.

package conformance;

import java.util.Arrays;
import java.util.HashMap;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.bookkeeper.mledger.Entry;
import org.apache.pulsar.broker.service.plugin.EntryFilter;
import org.apache.pulsar.broker.service.plugin.FilterContext;
import org.apache.pulsar.common.api.proto.KeyValue;
import org.apache.pulsar.common.api.proto.MessageMetadata;

public class PropertyFilter implements EntryFilter {
    private static final String PREFIX = "entry-filter.";
    private final Map<String, Integer> timesPutOff = new ConcurrentHashMap<>(); // by "topic/entry"

    @Override
    public FilterResult filterEntry(Entry entry, FilterContext context) {
        MessageMetadata metadata = context.getMsgMetadata();
        Map<String, String> wanted = context.getSubscription().getSubscriptionProperties();
        if (metadata == null || wanted == null) {
            return FilterResult.ACCEPT;
        }
        Map<String, String> header = new HashMap<>();
        for (KeyValue pair : metadata.getPropertiesList()) {
            header.put(pair.getKey(), pair.getValue());
        }
        boolean missingRejected = "reject".equals(wanted.get("entry-filter-missing"));
        for (Map.Entry<String, String> each : wanted.entrySet()) {
            if (each.getKey().startsWith(PREFIX)) {
                String value = header.get(each.getKey().substring(PREFIX.length()));
                if (value == null ? missingRejected : !Arrays.asList(each.getValue().split(",", -1)).contains(value)) {
                    return FilterResult.REJECT;
                }
            }
        }
        if (wanted.containsKey("put-off") && header.containsKey("put-off")) {
            String place = context.getSubscription().getTopicName() + "/" + entry.getLedgerId() + ":" + entry.getEntryId();
            if (timesPutOff.merge(place, 1, Integer::sum) <= Integer.parseInt(header.get("put-off"))) {
                return FilterResult.RESCHEDULE;
            }
        }
        return FilterResult.ACCEPT;
    }

    @Override
    public void close() {}
}
