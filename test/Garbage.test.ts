// Every reader of what comes from outside is fed garbage that looks like the real thing: none throws, and each answers
// with a value or with its typed error. `HERMES_TEST_RUNS` says how much is tried, `HERMES_TEST_SEED` changes what.
import { assert, describe } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import * as Config from "../src/base/config/Config.ts"
import * as DotEnv from "../src/base/config/DotEnv.ts"
import * as Yaml from "../src/base/config/Yaml.ts"
import * as Assembler from "../src/base/domain/Assembler.ts"
import { ConfigError } from "../src/base/domain/AgentError.ts"
import type { StreamPart } from "../src/base/domain/ModelCall.ts"
import * as Redaction from "../src/base/domain/Redaction.ts"
import * as TextHygiene from "../src/base/domain/TextHygiene.ts"
import * as Atif from "../src/observe/Atif.ts"
import * as AtifCheck from "../src/observe/AtifCheck.ts"
import * as Atof from "../src/observe/Atof.ts"
import * as AnthropicDecode from "../src/models/provider/anthropic/Decode.ts"
import * as AnthropicStream from "../src/models/provider/anthropic/Stream.ts"
import * as BedrockDecode from "../src/models/provider/bedrock/Decode.ts"
import * as BedrockStream from "../src/models/provider/bedrock/Stream.ts"
import * as ChatDecode from "../src/models/provider/chat/Decode.ts"
import * as ChatStream from "../src/models/provider/chat/Stream.ts"
import * as ThinkTags from "../src/models/provider/ThinkTags.ts"
import * as SseReader from "../src/models/provider/SseReader.ts"
import * as ResponsesDecode from "../src/models/provider/responses/Decode.ts"
import * as ResponsesStream from "../src/models/provider/responses/Stream.ts"
import * as SearchQuery from "../src/store/SearchQuery.ts"
import * as V4A from "../src/tools/builtin/patch/V4A.ts"
import * as Fence from "../src/tools/builtin/file/Fence.ts"
import * as Guidance from "../src/tools/builtin/terminal/Guidance.ts"
import * as ArgumentRepair from "../src/tools/calls/ArgumentRepair.ts"
import * as Injection from "../src/base/domain/Injection.ts"
import * as Urls from "../src/tools/fence/Urls.ts"
import * as Framing from "../src/tools/mcp/Framing.ts"
import { effectProp, prop } from "./support/property.ts"

const context = { module: "Test", method: "test", url: "http://127.0.0.1:1/v1", model: "m" }
/** Numbers from a seed, from 0 to 1. */
const randomOf = (seed: number): (() => number) => {
  let state = seed | 0
  return () => {
    state = (state + 0x6d2b79f5) | 0
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state)
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4294967296
  }
}

/** What a format is made of: names of members and words that mean something as values. */
interface Vocabulary {
  readonly names: ReadonlyArray<string>
  readonly words: ReadonlyArray<string>
}

const texts = [
  "",
  " ",
  "x",
  "0",
  "null",
  "{}",
  '{"a":',
  "[1,2",
  "\ud83d",
  "\u0000",
  "<think>",
  "</think>",
  "data: ",
  "__proto__",
  "a".repeat(5_000)
]
const numbers = [0, -1, 1, 3.5, 1e21, -0, 2 ** 53, 4_294_967_296]

class Garbage {
  readonly #random: () => number
  readonly #vocabulary: Vocabulary

  constructor(seed: number, vocabulary: Vocabulary) {
    this.#random = randomOf(seed)
    this.#vocabulary = vocabulary
  }

  below(limit: number): number {
    return Math.floor(this.#random() * limit)
  }

  of<A>(list: ReadonlyArray<A>, otherwise: A): A {
    return list[this.below(list.length)] ?? otherwise
  }

  list<A>(most: number, make: () => A): ReadonlyArray<A> {
    return Array.from({ length: this.below(most + 1) }, make)
  }

  text(): string {
    return this.#random() < 0.6 ? this.of(this.#vocabulary.words, "") : this.of(texts, "")
  }

  value(depth = 0): unknown {
    const kind = this.below(depth > 5 ? 4 : 8)
    if (kind === 0) return this.of([null, true, false], null)
    if (kind === 1) return this.of(numbers, 0)
    if (kind < 4) return this.text()
    return kind === 4 ? this.list(4, () => this.value(depth + 1)) : this.fields(depth + 1)
  }

  fields(depth = 0): Record<string, unknown> {
    return Object.fromEntries(this.list(6, () => [this.of(this.#vocabulary.names, "x"), this.value(depth)] as const))
  }

  /** Mostly the JSON of a value, sometimes broken. */
  json(value: unknown): string {
    const text = JSON.stringify(value)
    const fate = this.below(12)
    if (fate === 0) return text.slice(0, this.below(text.length + 1))
    if (fate === 1) return text.replace(/[{}:,"]/, "")
    return fate === 2 ? this.text() : text
  }
}

const Seed = Schema.Int
const many = { arbitrary: { runs: 300 } }
const few = { arbitrary: { runs: 60 } }

interface Machine {
  readonly step: (events: ReadonlyArray<never>) => ReadonlyArray<StreamPart>
  readonly end: (finished: boolean) => ReadonlyArray<StreamPart>
  readonly failure: () => unknown
  readonly body: (parts: ReturnType<Assembler.Assembler["result"]>["parts"]) => unknown
}

/** A stream is read to its end: its parts can be put together, and there is one `finish` at most. */
const readStream = (machine: Machine, events: ReadonlyArray<unknown>, finished: boolean): void => {
  const assembler = Assembler.make()
  const seen: Array<StreamPart> = []
  // Each machine is given events of its own kind.
  for (const event of events) seen.push(...machine.step([event as never]))
  seen.push(...machine.end(finished))
  assembler.add(seen)
  machine.body(assembler.result().parts)
  machine.failure()
  assert.isAtMost(seen.filter(({ type }) => type === "finish").length, 1)
}

const modes = {
  chat_completions: {
    vocabulary: {
      names: [
        "id",
        "model",
        "choices",
        "index",
        "delta",
        "message",
        "content",
        "reasoning",
        "reasoning_content",
        "reasoning_details",
        "tool_calls",
        "function",
        "name",
        "arguments",
        "finish_reason",
        "usage",
        "prompt_tokens",
        "error",
        "type",
        "role",
        "refusal",
        "text"
      ],
      words: [
        "stop",
        "length",
        "tool_calls",
        "content_filter",
        "function",
        "assistant",
        "read_file",
        "reasoning.text",
        "call_1",
        "text"
      ]
    },
    shape: (garbage: Garbage) => ({
      ...garbage.fields(),
      choices: garbage.list(2, () => ({ ...garbage.fields(), delta: garbage.value(), message: garbage.value() }))
    }),
    machine: () => ChatStream.make(context),
    decode: (raw: unknown) => ChatDecode.decode(raw, context)
  },
  anthropic_messages: {
    vocabulary: {
      names: [
        "type",
        "index",
        "message",
        "content_block",
        "delta",
        "content",
        "text",
        "thinking",
        "signature",
        "partial_json",
        "id",
        "name",
        "input",
        "stop_reason",
        "usage",
        "error",
        "model",
        "data",
        "output_tokens"
      ],
      words: [
        "message_start",
        "content_block_start",
        "content_block_delta",
        "content_block_stop",
        "message_delta",
        "message_stop",
        "error",
        "ping",
        "text",
        "thinking",
        "tool_use",
        "redacted_thinking",
        "text_delta",
        "thinking_delta",
        "signature_delta",
        "input_json_delta",
        "end_turn",
        "overloaded_error"
      ]
    },
    shape: (garbage: Garbage) => ({ ...garbage.fields(), type: garbage.text(), index: garbage.below(3) }),
    machine: () => AnthropicStream.make(context),
    decode: (raw: unknown) => AnthropicDecode.decode(raw, context)
  },
  codex_responses: {
    vocabulary: {
      names: [
        "type",
        "response",
        "item",
        "output",
        "output_index",
        "content_index",
        "summary_index",
        "item_id",
        "delta",
        "text",
        "arguments",
        "call_id",
        "name",
        "id",
        "status",
        "summary",
        "content",
        "encrypted_content",
        "incomplete_details",
        "error",
        "code",
        "message",
        "usage",
        "role",
        "part"
      ],
      words: [
        "response.created",
        "response.output_item.added",
        "response.output_item.done",
        "response.output_text.delta",
        "response.reasoning_summary_text.delta",
        "response.function_call_arguments.delta",
        "response.function_call_arguments.done",
        "response.completed",
        "response.incomplete",
        "response.failed",
        "error",
        "message",
        "reasoning",
        "function_call",
        "completed",
        "incomplete",
        "max_output_tokens",
        "output_text",
        "summary_text",
        "assistant"
      ]
    },
    shape: (garbage: Garbage) => ({
      ...garbage.fields(),
      type: garbage.text(),
      output_index: garbage.below(3),
      item: garbage.value()
    }),
    machine: () => ResponsesStream.make(context),
    decode: (raw: unknown) => ResponsesDecode.decode(raw, context)
  },
  bedrock_converse: {
    vocabulary: {
      names: [
        "messageStart",
        "contentBlockStart",
        "contentBlockDelta",
        "contentBlockStop",
        "messageStop",
        "metadata",
        "contentBlockIndex",
        "start",
        "delta",
        "toolUse",
        "toolUseId",
        "name",
        "input",
        "text",
        "reasoningContent",
        "reasoningText",
        "signature",
        "redactedContent",
        "stopReason",
        "usage",
        "inputTokens",
        "output",
        "message",
        "content",
        "role",
        "throttlingException"
      ],
      words: ["end_turn", "tool_use", "max_tokens", "guardrail_intervened", "assistant", "read_file"]
    },
    shape: (garbage: Garbage) => garbage.fields(),
    machine: () => BedrockStream.make(context, "r"),
    decode: (raw: unknown) => BedrockDecode.decode(raw, context)
  }
}

describe("readers of answers", () => {
  for (const [mode, { decode, machine, shape, vocabulary }] of Object.entries(modes)) {
    prop(
      `${mode}: a stream of garbage is parts and perhaps a failure`,
      [Seed],
      ([seed]) => {
        const garbage = new Garbage(seed, vocabulary)
        const events = garbage.list(12, () => {
          const event = garbage.below(3) === 0 ? garbage.value() : shape(garbage)
          return mode === "bedrock_converse"
            ? event
            : { event: garbage.below(2) === 0 ? undefined : garbage.text(), data: garbage.json(event) }
        })
        readStream(machine(), events, garbage.below(2) === 0)
      },
      many
    )

    prop(
      `${mode}: a body of garbage is an answer or an error`,
      [Seed],
      ([seed]) => {
        const garbage = new Garbage(seed, vocabulary)
        const raw = garbage.below(3) === 0 ? garbage.value() : shape(garbage)
        for (const body of [raw, garbage.json(raw), undefined, Symbol("x"), () => 1]) {
          const result = decode(body)
          assert.isTrue(Result.isSuccess(result) || Result.isFailure(result))
        }
      },
      many
    )
  }

  effectProp(
    "server-sent events: bytes of garbage, cut anywhere, end",
    [Seed],
    ([seed]) =>
      Effect.promise(async () => {
        const garbage = new Garbage(seed, {
          names: ["a"],
          words: [
            'data: {"a":1}',
            "event: x",
            ":",
            "data",
            "\n",
            "\r",
            "\r\n",
            "[DONE]",
            "data: [DONE]",
            "id: 1",
            "é😀"
          ]
        })
        const bytes = new TextEncoder().encode(
          garbage.list(60, () => garbage.text()).join(garbage.below(2) === 0 ? "\n" : "")
        )
        const chunks: Array<Uint8Array> = []
        for (let at = 0; at < bytes.length;) {
          const next = at + 1 + garbage.below(7)
          chunks.push(garbage.below(40) === 0 ? new Uint8Array([0xff, 0xc0]) : bytes.slice(at, next))
          at = next
        }
        const reader = SseReader.readEvents(
          (async function* () {
            yield* chunks
          })()
        )
        for await (const events of reader) assert.isTrue(events.every(({ data }) => typeof data === "string"))
      }),
    few
  )

  prop(
    "thinking tags: what is read is what was written, less the tags",
    [
      Schema.Array(
        Schema.Literals([
          "<",
          "think",
          ">",
          "</",
          "thinking>",
          "\n",
          "a",
          " ",
          "<REASONING_SCRATCHPAD>",
          "</reasoning_scratchpad>",
          "<thi"
        ])
      )
    ],
    ([pieces]) => {
      let out = ""
      const add = (text: string): void => void (out += text)
      const tags = ThinkTags.make({ text: add, reasoning: add })
      for (const piece of pieces) tags.read(piece)
      tags.end()
      assert.isAtMost(out.length, pieces.join("").length)
    }
  )
})

describe("readers of calls and texts", () => {
  const json = [
    "{",
    "}",
    "[",
    "]",
    '"',
    ":",
    ",",
    "\\",
    "\n",
    "'",
    "a",
    "1",
    "-",
    "true",
    "null",
    "None",
    "//",
    "/*",
    "```json",
    "\u0000",
    "\ud83d",
    "<tool_call>"
  ]
  prop(
    "arguments: repaired, cut or malformed",
    [Schema.Array(Schema.Literals(json)), Schema.String],
    ([tokens, noise]) => {
      for (const text of [tokens.join(""), noise, `{${noise}}`, `{"a":${tokens.join(" ")}`]) {
        assert.include(["Repaired", "Truncated", "Malformed"], ArgumentRepair.repair(text)._tag)
      }
    },
    many
  )

  const patch = [
    "*** Begin Patch",
    "*** End Patch",
    "*** Update File: a",
    "*** Add File: b",
    "*** Delete File: c",
    "*** Move to: d",
    "@@",
    "@@ x",
    "+a",
    "-a",
    " a",
    "",
    "\r",
    "*** ",
    "***"
  ]
  prop(
    "patches: operations or a reason",
    [Schema.Array(Schema.Literals(patch)), Schema.String],
    ([lines, noise]) => {
      for (const text of [lines.join("\n"), noise, `*** Begin Patch\n${noise}\n*** End Patch`]) V4A.parse(text)
    },
    many
  )

  prop(
    "command lines, search queries and fences",
    [
      Schema.String,
      Schema.Array(
        Schema.Literals([
          '"',
          "'",
          "\\",
          "(",
          ")",
          "*",
          "AND",
          "OR",
          "NOT",
          "-",
          "|",
          "&",
          ";",
          "$",
          "`",
          "\n",
          "a",
          "NEAR",
          "^",
          ":"
        ])
      )
    ],
    ([noise, tokens]) => {
      const places = { home: "/home/a", homes: ["/home/a"], agentHomes: ["/home/a/.hermes"], safeRoots: [] }
      for (const text of [noise, tokens.join(" "), tokens.join("")]) {
        Guidance.parse(text)
        SearchQuery.parse(text)
        TextHygiene.stripFences(text)
        Redaction.redactText(text)
        Injection.scan(text, "web")
        Injection.scan(text, "memory")
        Urls.read(text, Urls.strict)
        Fence.judgeRead(`/${text}`, places)
        Fence.judgeWrite(`/${text}`, places)
      }
    },
    many
  )

  prop(
    "lines of MCP servers: whole, or too long",
    [Seed],
    ([seed]) => {
      const garbage = new Garbage(seed, {
        names: ["jsonrpc", "id", "method", "params", "result", "error"],
        words: ["2.0", "tools/list", "\n", "\r\n"]
      })
      const frame = Framing.make(64)
      for (const piece of garbage.list(20, () => garbage.json(garbage.value()))) {
        for (const line of frame(new TextEncoder().encode(piece))) {
          if (line._tag !== "Line") Framing.readAnsweredId(line)
        }
      }
    },
    many
  )
})

describe("readers of files", () => {
  const yaml = [
    "a",
    ":",
    " ",
    "\n",
    "  ",
    "- ",
    "{",
    "}",
    "[",
    "]",
    '"',
    "'",
    "|",
    ">",
    "&x",
    "*x",
    "!!int",
    "#",
    "?",
    "<<",
    "---",
    "...",
    "\t",
    "~",
    "1e9",
    "0x",
    "\u0000"
  ]
  effectProp(
    "YAML: a value, or the error of the file",
    [Schema.Array(Schema.Literals(yaml)), Schema.String],
    ([tokens, noise]) =>
      Effect.forEach(
        [tokens.join(""), noise],
        (text) =>
          Effect.map(Effect.result(Yaml.read(text, "config.yaml")), (result) => {
            if (Result.isFailure(result)) assert.instanceOf(result.failure, ConfigError)
          }),
        { discard: true }
      ),
    many
  )

  const settings: Vocabulary = {
    names: [
      "model",
      "default",
      "agent",
      "max_turns",
      "security",
      "redact_secrets",
      "mcp_servers",
      "toolsets",
      "hooks",
      "providers",
      "approvals",
      "mode",
      "delegation",
      "plugins",
      "terminal",
      "x",
      "__proto__",
      "constructor"
    ],
    words: ["auto", "manual", "off", "local", "none", "all"]
  }
  effectProp(
    "settings: values, or the one line that says what is wrong",
    [Seed],
    ([seed]) => {
      const file = new Garbage(seed, settings).fields()
      const environment = { process: {}, file: {}, get: () => undefined }
      return Effect.map(Effect.result(Config.resolve({ environment, file, flags: [] })), (result) => {
        if (Result.isFailure(result)) assert.instanceOf(result.failure, ConfigError)
      })
    },
    few
  )

  prop(
    ".env files",
    [Schema.String, Schema.Array(Schema.Literals(["A", "=", '"', "'", "\n", "#", "export ", "$", "\\", " "]))],
    ([noise, tokens]) => {
      for (const text of [noise, tokens.join("")]) DotEnv.set(text, "A", JSON.stringify(DotEnv.parse(text)))
    }
  )

  const atof: Vocabulary = {
    names: [
      "atof_version",
      "kind",
      "uuid",
      "parent_uuid",
      "timestamp",
      "name",
      "scope_category",
      "category",
      "data",
      "metadata",
      "attributes",
      "category_profile",
      "data_schema"
    ],
    words: ["0.1", "scope", "mark", "start", "end", "llm", "tool", "agent", "custom", "2026-01-01T00:00:00Z", "a1"]
  }
  prop(
    "ATOF: events and faults, one for each line that is none",
    [Seed],
    ([seed]) => {
      const garbage = new Garbage(seed, atof)
      const lines = garbage.list(8, () =>
        garbage.json({ ...garbage.fields(), atof_version: "0.1", kind: garbage.text() })
      )
      const stream = Atof.parse(lines.join("\n"))
      assert.isAtMost(stream.events.length + stream.faults.length, lines.join("\n").split("\n").length)
      Atof.check(stream)
    },
    many
  )

  const atif: Vocabulary = {
    names: [
      "schema_version",
      "session_id",
      "agent",
      "name",
      "version",
      "steps",
      "step_id",
      "source",
      "message",
      "timestamp",
      "tool_calls",
      "tool_call_id",
      "function_name",
      "arguments",
      "observation",
      "results",
      "content",
      "metrics",
      "final_metrics",
      "extra",
      "type",
      "text",
      "path"
    ],
    words: ["ATIF-v1.7", "ATIF-v1.4", "user", "agent", "system", "text", "image", "2026-01-01T00:00:00Z"]
  }
  prop(
    "ATIF: a trajectory, or what is wrong with it",
    [Seed],
    ([seed]) => {
      const garbage = new Garbage(seed, atif)
      const document =
        garbage.below(3) === 0
          ? garbage.value()
          : { ...garbage.fields(), schema_version: "ATIF-v1.7", steps: garbage.list(3, () => garbage.fields()) }
      const read = Atif.decode(document)
      const issues = AtifCheck.check(document)
      if (Result.isFailure(read)) assert.isNotEmpty(issues)
    },
    many
  )
})
