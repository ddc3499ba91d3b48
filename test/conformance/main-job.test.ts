// The main job on real input: the prompts of the observability document, through all four protocols over HTTP, streamed
// and not, with real files, a real shell and a real child.
import { assert, describe, it } from "@effect/vitest"
import * as NodeServices from "@effect/platform-node/NodeServices"
import * as Effect from "effect/Effect"
import * as FileSystem from "effect/FileSystem"
import * as Layer from "effect/Layer"
import * as Redacted from "effect/Redacted"
import type * as AiError from "effect/ai/AiError"
import type * as Prompt from "effect/ai/Prompt"
import * as Agent from "../../src/agent/Agent.ts"
import type { ConfigError } from "../../src/base/domain/AgentError.ts"
import { SessionId } from "../../src/base/domain/Ids.ts"
import type { RunEvent } from "../../src/base/domain/RunEvent.ts"
import * as AnthropicMessages from "../../src/models/provider/AnthropicMessages.ts"
import * as BedrockConverse from "../../src/models/provider/BedrockConverse.ts"
import * as ChatCompletions from "../../src/models/provider/ChatCompletions.ts"
import * as CodexResponses from "../../src/models/provider/CodexResponses.ts"
import type { Provider } from "../../src/models/provider/Provider.ts"
import * as Runtime from "../../src/program/Runtime.ts"
import { SessionStore } from "../../src/store/SessionStore.ts"
import * as Delegate from "../../src/tools/builtin/Delegate.ts"
import * as FileTools from "../../src/tools/builtin/FileTools.ts"
import * as TerminalTools from "../../src/tools/builtin/TerminalTools.ts"
import * as Ask from "../models/provider/Ask.ts"

const parallelPrompt =
  "Use exactly two read_file tool calls in the same assistant message. Read alpha.txt and beta.txt. " +
  "Do not call terminal. After both tool results are available, reply with exactly: parallel tools complete."
const terminalPrompt =
  "Use the terminal tool exactly once to run printf middleware_execution_ok. " +
  "Then reply with exactly the command output."

const delegationPrompt =
  "Use delegate_task exactly once. Ask the child subagent to use the terminal tool exactly once to run " +
  "printf docs_nested_leaf_function. After the child returns, reply with exactly: parent received nested subagent result."
const goal = "Run the command `printf docs_nested_leaf_function` using the terminal tool."

type Open = (url: string) => Layer.Layer<Provider, AiError.AiError | ConfigError>

const apiKey = Redacted.make("test-key")

const modes: Readonly<Record<string, Open>> = {
  chat_completions: (url) => ChatCompletions.layer({ model: "qwen3.6:35b", baseUrl: `${url}/v1`, apiKey }),
  codex_responses: (url) => CodexResponses.layer({ model: "gpt-5.4", baseUrl: `${url}/v1`, apiKey }),
  anthropic_messages: (url) => AnthropicMessages.layer({ model: "claude-opus-4-6", baseUrl: url, apiKey }),
  bedrock_converse: (url) =>
    BedrockConverse.layer({ model: "anthropic.claude-opus-4-6", baseUrl: url, apiKey, region: "us-east-1" })
}

const workdir = Effect.gen(function* () {
  const fs = yield* FileSystem.FileSystem
  const dir = yield* fs.realPath(yield* fs.makeTempDirectoryScoped({ prefix: "hermes-main-job-" }))
  yield* fs.writeFileString(`${dir}/alpha.txt`, "docs_parallel_alpha_function\n")
  yield* fs.writeFileString(`${dir}/beta.txt`, "docs_parallel_beta_function\n")
  return dir
}).pipe(Effect.provide(NodeServices.layer))

const results = (messages: ReadonlyArray<Prompt.Message>) =>
  messages.flatMap((message) =>
    message.role === "tool"
      ? message.content.flatMap((part) =>
          part.type === "tool-result" ? [[part.id, JSON.parse(String(part.result))]] : []
        )
      : []
  )

describe("the main job", () => {
  for (const [mode, open] of Object.entries(modes)) {
    for (const streaming of [true, false]) {
      it.live(`${mode}, ${streaming ? "streamed" : "in one piece"}: the nested subagent`, () =>
        Effect.gen(function* () {
          const server = yield* Ask.mock
          const toolCalls = (id: string, name: string, params: unknown) => ({
            toolCalls: [{ id, name, arguments: JSON.stringify(params) }]
          })
          server.on(
            { userMessage: "Run the command", hasToolResult: false },
            toolCalls("call_terminal", "terminal", { command: "printf docs_nested_leaf_function" })
          )
          server.on(
            { userMessage: "Run the command", hasToolResult: true },
            { content: "It printed docs_nested_leaf_function." }
          )
          server.on(
            { userMessage: "Use delegate_task", hasToolResult: false },
            toolCalls("call_delegate", "delegate_task", { goal, toolsets: ["terminal"] })
          )
          server.on(
            { userMessage: "Use delegate_task", hasToolResult: true },
            { content: "parent received nested subagent result." }
          )
          const cwd = yield* workdir
          yield* Effect.gen(function* () {
            const store = yield* SessionStore
            const result = yield* Agent.run({ prompt: delegationPrompt, sessionId: "parent", streaming })
            assert.deepInclude(result, {
              text: "parent received nested subagent result.",
              exit: "text_response",
              steps: 2
            })
            assert.strictEqual(result.usage.requestCount, 4)
            const [[id, body] = []] = results(yield* store.messages(SessionId.make("parent")))
            assert.strictEqual(id, "call_delegate")
            const [child] = yield* store.list({ source: "subagent" })
            assert.deepInclude(body.results[0], {
              task_index: 0,
              status: "completed",
              exit_reason: "completed",
              summary: "It printed docs_nested_leaf_function.",
              api_calls: 2,
              session_id: child?.id
            })
            assert.strictEqual(child?.parentId, "parent")
            assert.deepStrictEqual(results(yield* store.messages(SessionId.make(child?.id ?? ""))), [
              ["call_terminal", { output: "docs_nested_leaf_function", exit_code: 0, error: null }]
            ])
          }).pipe(
            Effect.provide(
              Runtime.layer({
                provider: open(server.url),
                tools: [TerminalTools.toolset, Delegate.toolset],
                cwd,
                // The mock server reads a cache point after the tools as a tool.
                promptCache: mode === "bedrock_converse" ? "off" : "5m"
              })
            )
          )
        })
      )

      it.live(`${mode}, ${streaming ? "streamed" : "in one piece"}`, () =>
        Effect.gen(function* () {
          const server = yield* Ask.mock
          server.on(
            { userMessage: "read_file", hasToolResult: false },
            {
              toolCalls: [
                { id: "call_alpha", name: "read_file", arguments: '{"path":"alpha.txt"}' },
                { id: "call_beta", name: "read_file", arguments: '{"path":"beta.txt"}' }
              ]
            }
          )
          server.on({ userMessage: "read_file", hasToolResult: true }, { content: "parallel tools complete." })
          server.on(
            { userMessage: "terminal tool", hasToolResult: false },
            {
              toolCalls: [
                { id: "call_terminal", name: "terminal", arguments: '{"command":"printf middleware_execution_ok"}' }
              ]
            }
          )
          server.on({ userMessage: "terminal tool", hasToolResult: true }, { content: "middleware_execution_ok" })
          const cwd = yield* workdir
          yield* Effect.gen(function* () {
            const store = yield* SessionStore
            const events: Array<RunEvent> = []
            const run = (prompt: string, sessionId: string) =>
              Agent.run({
                prompt,
                sessionId,
                streaming,
                onEvent: (seen) => Effect.sync(() => void events.push(...seen))
              })

            const parallel = yield* run(parallelPrompt, "parallel")
            assert.deepInclude(parallel, { text: "parallel tools complete.", exit: "text_response", steps: 2 })
            assert.deepStrictEqual(
              results(yield* store.messages(SessionId.make("parallel")))
                .map(([id, body]) => [id, body.content])
                .toSorted(),
              [
                ["call_alpha", "     1|docs_parallel_alpha_function\n"],
                ["call_beta", "     1|docs_parallel_beta_function\n"]
              ]
            )
            const deltas = events.flatMap((event) => (event._tag === "TextDelta" ? [event.text] : []))
            assert.strictEqual(deltas.join(""), "parallel tools complete.")
            assert.strictEqual(deltas.length > 1, streaming)

            const terminal = yield* run(terminalPrompt, "terminal")
            assert.deepInclude(terminal, { text: "middleware_execution_ok", exit: "text_response", steps: 2 })
            assert.deepStrictEqual(results(yield* store.messages(SessionId.make("terminal"))), [
              ["call_terminal", { output: "middleware_execution_ok", exit_code: 0, error: null }]
            ])
          }).pipe(
            Effect.provide(
              Runtime.layer({
                provider: open(server.url),
                tools: [FileTools.toolset, TerminalTools.toolset],
                cwd,
                // The mock server reads a cache point after the tools as a tool.
                promptCache: mode === "bedrock_converse" ? "off" : "5m"
              })
            )
          )
        })
      )
    }
  }
})
