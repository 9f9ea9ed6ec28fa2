/* Other gateways' words and what they are called here, so that somebody who comes from one of them is told our word
 * and not only that theirs is unknown. */
#include "conf/directives.h"

static const struct foreign {
    const char *theirs, *ours;
} words[] = {
    {"model_list", "'backends' say who can answer and 'aliases' what clients ask for"},
    {"litellm_params", "a target is written backend/model; url and api_keys stand in 'backends'"},
    {"litellm_settings", "its settings are spread over 'aliases', 'cache' and 'retries'"},
    {"general_settings", "see 'admin', 'state' and 'log'"},
    {"router_settings", "see 'aliases', 'retries' and 'health'"},
    {"environment_variables", "'${NAME}' reads the environment in secrets, paths and urls"},
    {"model_name", "the name of an entry of 'aliases'"},
    {"model_group_alias", "'aliases'"},
    {"master_key", "'admin: {token: ...}'"},
    {"api_base", "'url'"},
    {"base_url", "'url'"},
    {"endpoint", "'url'"},
    {"api_key", "'api_keys', a list"},
    {"keys_file", "'api_keys: [\"${file:PATH}\"]'"},
    {"api_type", "'protocol'"},
    {"provider", "'protocol'"},
    {"custom_llm_provider", "'protocol'"},
    {"providers", "'backends'"},
    {"upstreams", "'backends'"},
    {"endpoints", "'backends'"},
    {"models", "'aliases' for what clients ask for, 'backends: {NAME: {models: ...}}' for what a provider has"},
    {"routes", "'aliases'"},
    {"fallbacks", "a 'ladder' of rungs in an alias"},
    {"context_window_fallbacks", "a rung with 'only_for: [context_window]'"},
    {"content_policy_fallbacks", "a rung with 'only_for: [content_filter]'"},
    {"default_fallbacks", "a 'ladder' in each alias"},
    {"routing_strategy", "'policy' of a rung"},
    {"num_retries", "'attempts' of an alias"},
    {"max_retries", "'attempts' of an alias"},
    {"allowed_fails", "'health: {errors, samples}'"},
    {"cooldown_time", "'health: {cool_down: [2s, 5m]}'"},
    {"timeout", "'timeouts: {connect, first_token, idle, total}'"},
    {"request_timeout", "'timeouts: {total: ...}'"},
    {"stream_timeout", "'timeouts: {first_token: ...}'"},
    {"max_budget", "'budgets: [{limit: 100 USD, period: month}]'"},
    {"soft_budget", "'budgets' with 'warn'"},
    {"budget_duration", "'period' of a budget"},
    {"budget", "'budgets', a list"},
    {"rpm", "'rate_limits: {requests_per_minute: N}'"},
    {"tpm", "'rate_limits: {tokens_per_minute: N}'"},
    {"rpm_limit", "'rate_limits: {requests_per_minute: N}'"},
    {"tpm_limit", "'rate_limits: {tokens_per_minute: N}'"},
    {"rate_limit", "'rate_limits'"},
    {"max_parallel_requests", "'rate_limits: {in_flight: N}'"},
    {"concurrency", "'rate_limits: {in_flight: N}'"},
    {"virtual_keys", "'teams: {NAME: {keys: [...]}}'"},
    {"consumers", "'teams'"},
    {"users", "'teams' and their 'keys'"},
    {"team_list", "'teams'"},
    {"allowed_models", "'allow' of a team or key"},
    {"max_tokens", "'max_output' of a model, or 'hold: {output_cap: N}'"},
    {"input_cost_per_token", "'price: {input: 2.50 USD/1M, ...}'"},
    {"output_cost_per_token", "'price: {output: 10 USD/1M, ...}'"},
    {"cache_params", "'cache'"},
    {"redis_host", "'redis: {url: ...}'"},
    {"host", "'listen: [{address: HOST:PORT}]'"},
    {"port", "'listen: [{address: HOST:PORT}]'"},
    {"server", "'listen'"},
    {"guardrails", "nothing like it is built"},
    {"callbacks", "'audit' writes what was done; 'alerts' tells somebody"},
};

const char *foreign_word(struct span word) {
    for (size_t i = 0; i < ARRAY_LEN(words); i++)
        if (span_is(word, words[i].theirs))
            return words[i].ours;
    return NULL;
}
