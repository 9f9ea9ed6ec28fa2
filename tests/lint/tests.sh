#!/bin/sh
# Every source file has a unit test named after it (test_FILE.c or test_ROOM_FILE.c), or a line below that says which test
# stands for it and why. A line for a file that is gone, or that has its own test by now, does not hold either.
cd "$(dirname "$0")/../.." || exit 2
# FILE TEST REASON
stands_for='
gateway/base/clock.c test_base.c one page of small checks for the small pieces of the floor
gateway/base/err.c test_base.c the same
gateway/base/hash.c test_base.c the same
gateway/base/log.c test_base.c the same
gateway/base/map.c test_base.c the same
gateway/base/mem.c test_base.c the same
gateway/base/span.c test_base.c the same
gateway/base/loop.c test_delay_store.c a post is seen by the loop that runs
gateway/base/json_check.c test_json.c three files of one scanner
gateway/base/json_read.c test_json.c the same
gateway/base/json_write.c test_json.c the same
conf/directives.c test_conf_schema.c the table is shown by what is printed from it
conf/directives_names.c test_conf_schema.c the same
conf/json_tree.c test_conf_tree.c two readers of one tree
conf/yaml.c test_conf_tree.c the same
conf/price_file.c test_conf_price.c prices are read through the files that hold them
conf/price_row.c test_conf_price.c the same
conf/read.c test_conf_bad.c each way a section can be wrong
conf/state_act.c test_conf_state.c acts are seen through the overlay
conf/value_text.c test_conf_value.c values of both files in one table
conf/words.c test_conf_value.c the same
audit/file.c test_writer.c a file is written and synced by its two threads
audit/append.c test_audit.c a record is seen in the file it went to
audit/open.c test_audit.c the same
audit/written.c test_audit.c the same
audit/verify_piece.c test_verify.c a file is checked to be joined
audit/recover.c test_audit.c what a crash left is seen after the next start
audit/recover_settle.c test_audit.c the same
budget/redis_call.c test_redis_ledger.c one ledger, seen through its door over a real Redis
budget/redis_ask.c test_redis_ledger.c the same
budget/redis_down.c test_redis_ledger.c the same
budget/redis_rate_ask.c test_redis_rate.c rates are seen through the door, over a real Redis
budget/redis_slots.c test_redis_rate_slice.c slots are leased with requests and tokens
budget/redis_job.c test_redis_ledger.c the same
budget/redis_settle.c test_redis_ledger.c the same
budget/redis_sync.c test_redis_ledger.c the same
budget/redis_words.c test_redis_ledger.c the same
backends/anthropic_read.c test_golden.c streams and bodies of each provider, at every cut
backends/anthropic_turn.c test_call_write.c the cuts of a call are seen in the call written
backends/anthropic_write.c test_answer_writer.c written answers are read again
backends/call_check.c test_openai_call.c checks are seen through the calls they refuse
backends/endpoints.c test_call_write.c the table is asked for every endpoint
backends/mask.c test_error.c masks are seen in the errors they clean
backends/openai_read.c test_golden.c streams and bodies of each provider, at every cut
backends/openai_repair.c test_golden.c the same
backends/openai_turn.c test_call_write.c the cuts of a call are seen in the call written
backends/openai_write.c test_answer_writer.c written answers are read again
backends/responses_items.c test_cut.c what a stream said is seen when it is cut
backends/responses_read.c test_golden.c streams and bodies of each provider, at every cut
backends/responses_write.c test_answer_writer.c written answers are read again
gateway/workers/engine_door.c test_engine_words.c what goes through it; the socket is seen by tests/sdk/engine-workers.test.mjs
gateway/admin/admin_compare.c test_decode_adapters.c what it asks of the engine; its figures by the same
backends/engine_form.c test_engine.c what is wished is read, or refused, with the rest of a call
backends/openai_logprobs.c test_answer_writer.c written by the writer; both forms are seen by tests/sdk/engine-forms.test.mjs
backends/decode/automaton.c test_grammar.c forms are judged by what they allow at work
backends/decode/grammar_form.c test_grammar.c the same
backends/decode/grammar_json.c test_grammar.c the same
backends/decode/grammar_schema.c test_grammar.c the same
backends/decode/vocabulary.c test_schedule.c masks over a vocabulary keep answers to their form
backends/decode/run_logprobs.c test_schedule.c logprobs are told of runs
backends/engine_run.c test_engine.c pieces become events there
backends/decode/push_tar.c test_push.c an archive is read by a push
backends/decode/adapters_keep.c test_push.c what is pushed is what is kept
backends/decode/adapter_pattern.c test_adapter_config.c patterns are keys of the config
backends/decode/cpu_lora.c test_adapter.c adapters are judged by what the twins give
backends/decode/cuda_adapter.c test_compute_cuda.c the parts of one twin, seen in the numbers it gives
backends/decode/cuda_blas.c test_compute_cuda.c the same
backends/decode/cuda_device.c test_compute_cuda.c the same
backends/decode/cuda_graph.c test_compute_cuda.c the same
backends/decode/cuda_image.c test_cuda_driver.c kernels that are not there are missed
backends/decode/cuda_model.c test_compute_cuda.c the same
backends/decode/cuda_step.c test_compute_cuda.c the same
backends/decode/cuda_walk.c test_compute_cuda.c the same
backends/decode/compute_avx2.c test_compute.c both twins against one reference
backends/decode/compute_plain.c test_compute.c the same
backends/decode/cpu.c test_compute.c the same
backends/decode/decode_plan.c test_decode.c the plan of a directory is asked of the door
backends/decode/dtype.c test_model.c dtypes are seen in the tensors read
backends/decode/model_config.c test_model.c a model is read with its configuration
backends/decode/model_family.c test_model.c the same
backends/decode/model_file.c test_model.c the same
backends/decode/run.c test_decode.c runs and their order are seen from the door
backends/decode/schedule_admit.c test_schedule.c who is let in is part of the schedule
backends/decode/schedule_batch.c test_schedule.c tiles and rows are seen in the bits
backends/decode/adapters_acts.c test_decode_adapters.c the life of adapters is one story
backends/decode/adapters_scan.c test_decode_adapters.c the life of adapters is one story
backends/decode/adapters_names.c test_decode_adapters.c the same
backends/decode/jinja_call.c test_jinja.c one interpreter, seen through what it writes
backends/decode/jinja_eval.c test_jinja.c one interpreter, seen through what it writes
backends/decode/jinja_filter.c test_jinja.c one interpreter, seen through what it writes
backends/decode/jinja_lex.c test_jinja.c one interpreter, seen through what it writes
backends/decode/jinja_parse.c test_jinja.c one interpreter, seen through what it writes
backends/decode/jinja_parse_expression.c test_jinja.c one interpreter, seen through what it writes
backends/decode/jinja_run.c test_jinja.c one interpreter, seen through what it writes
backends/decode/jinja_test.c test_jinja.c one interpreter, seen through what it writes
backends/decode/jinja_text.c test_jinja.c one interpreter, seen through what it writes
backends/decode/jinja_value.c test_jinja.c one interpreter, seen through what it writes
backends/decode/tokenizer_added.c test_tokenizer.c added tokens are seen in what is encoded
backends/decode/unicode_nfc_tables.c test_unicode_nfc.c the tables of one function
backends/decode/tokenizer_read.c test_tokenizer.c a tokenizer is read to be used
backends/decode/unicode.c test_pretoken.c classes of characters are seen in the pieces
backends/decode/unicode_tables.c test_pretoken.c the same
conf/url.c test_conf_backend.c urls are taken apart for backends, and for alerts
gateway/net/call.c test_http_call.c the four files of one call, against scripted providers
gateway/net/call_request.c test_http_call.c the same
gateway/redis/redis_node.c test_redis.c three files of one link, against a server by script and a real one
gateway/redis/redis_greet.c test_redis.c the same
gateway/net/pool.c test_http_call.c kept connections are seen in the calls that use them
gateway/net/tls.c test_call_connect.c TLS is seen from both its ends
gateway/net/conn.c test_front.c one socket, seen through what listens and what calls
gateway/net/front_client.c test_front.c the four files of the front, against raw sockets
gateway/net/front_exchange.c test_front.c the same
gateway/net/fields.c test_front.c the same
gateway/net/http1_head.c test_http1.c two files of one framing
gateway/explain_house.c test_explain.c the house that is asked is the one that is told
routing/snapshot.c test_explain.c what is written decides as it did when it is read
gateway/cli/check.c test_cli_conf.c verbs that read the configuration, as a shell sees them
gateway/cli/config.c test_cli_conf.c the same
gateway/cli/key.c test_cli_conf.c the same
gateway/cli/schema.c test_cli_conf.c the same
gateway/cli/spend_check.c test_cli_books.c the ledger is asked over the admin port
gateway/finance/books_close.c test_books.c months are closed to be told
gateway/finance/records.c test_books.c the records that are written are read back
gateway/finance/reprice.c test_books.c corrections are seen in the bills of closed and open months
audit/content_files.c test_vault.c what a vault wrote is read, cut, changed and destroyed
gateway/cli/client.c test_cli_books.c the admin port as a verb asks it
gateway/cli/price_book.c test_prices.c rows, figures and changes are seen in what the verb prints
gateway/cli/price_merge.c test_prices.c the same
gateway/finance/report.c test_spend.c words, sums and printing of one report, as a shell sees them
gateway/finance/spend_focus.c test_spend.c the same
gateway/finance/spend_print.c test_spend.c the same
gateway/finance/spend_rows.c test_spend_record.c rows are seen through the records that made them
gateway/finance/spend_words.c test_spend_record.c the same
'
# The walk itself is shown whole: tests/flow runs the house in one process, tests/sdk runs the built binary.
walk=' key_act requests admin anchor content admin_books admin_content admin_finance audit_content shred alert watch
 keeper keys self_service admin_requests admin_workers parent_ask peers reload
 admin_keys admin_adapters admin_push admin_acts admin_pointers act act_tell pointer in_force attempt attempt_call attempt_run body gateway hedge ledger main metrics news own record reply request source state steps steps_out stream turn cli explain serve shadow shared hold topup kept '
walk=" $(echo $walk) "

bad=0
# One pass over all names: first the tests that are there, then the files that need one.
{
    echo "$stands_for" | sed -n 's/^[a-z]/stands &/p'
    ls tests/unit/ | sed -n 's/^\(test_.*\)\.c$/test \1/p'
    git ls-files -co --exclude-standard -- '*.c' | grep -v '^tests/' | while read -r f; do [ -f "$f" ] && echo "source $f"; done
} | awk -v walk="$walk" -v self="$0" '
function said(text) { print text; bad = 1 }
$1 == "stands" { test = $3; sub(/\.c$/, "", test); stands[$2] = test; next }
$1 == "test" { is[$2] = 1; next }
{
    source = $2; n = split(source, part, "/"); name = part[n]; sub(/\.c$/, "", name); there[source] = 1
    if (("test_" name) in is || ("test_" part[n - 1] "_" name) in is) {
        if (source in stands) said(source ": has a test of its own; its line in " self " may go")
    } else if (source in stands) {
        if (!(stands[source] in is)) said(source ": " stands[source] " stands for it and is not there")
    } else if (source !~ /^gateway\// || !index(walk, " " name " ")) said(source ": no tests/unit/test_" name ".c")
}
END { for (source in stands) if (!(source in there)) said(source ": is gone; its line in " self " may go"); exit bad }' || bad=1
# A fuzz target is also a test by its corpus, and a suite without a line of time is not in the table.
for target in tests/fuzz/fuzz_*.c; do
    name=$(basename "$target" .c)
    [ -n "$(ls "tests/fuzz/corpus/${name#fuzz_}" 2>/dev/null)" ] || { echo "$target: no corpus"; bad=1; }
done
for suite in $(sed -n 's/^#.*suites: //p' tests/run.sh); do
    grep -qE "^\| $suite \|" tests/README.md || { echo "tests/README.md: no line of time for $suite"; bad=1; }
done
exit $bad
