// Values that a model repeats in pieces, cut at every place, in all four protocols: what the program shows of each is
// the same wherever it was cut.
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as HttpServer from "../../models/provider/HttpServer.ts"
import { machine } from "../../support/hermes.ts"
import { encoded, isWhole, selectedForeignKeys, selectedKeys } from "../../support/plantedKeys.ts"
import { found } from "../../support/secretSearch.ts"
import { environmentFile, modelKey } from "../../support/secretWorld.ts"
import { protocols, type WireTurn } from "../../support/wireModel.ts"

const kinds = isWhole ? ["aws", "telegram", "stripe live", "1password"] : ["aws", "telegram"]

const valueOf = (keys: typeof selectedKeys, kind: string): string => keys.find(([name]) => name === kind)?.[1] ?? ""

/** A value as it stands in the answer, by a name without blanks. */
const values: ReadonlyArray<readonly [name: string, value: string]> = kinds.flatMap((kind, at) => [
  ...Object.entries(encoded).map(
    ([, encode], form) => [`k${at}f${form}`, encode(valueOf(selectedKeys, kind))] as const
  ),
  [`k${at}foreign`, valueOf(selectedForeignKeys, kind)] as const
])

/** Each value once for every place that it can be cut at, on a line of its own. */
const pieces: ReadonlyArray<string> = values.flatMap(([name, value]) =>
  Array.from({ length: value.length - 1 }, (_, at) => [
    `@${name} ${value.slice(0, at + 1)}`,
    `${value.slice(at + 1)} ;\n\n`
  ]).flat()
)

/** One piece for each character. */
const letters: ReadonlyArray<string> = values.flatMap(([name, value]) => [`@${name} `, ...value, " ;\n\n"])

const all = [...pieces, ...letters]
const text = all.join("")

/** What is shown of each value, by its name: one text, however it was cut. */
const shownOf = (shown: string): ReadonlyMap<string, ReadonlySet<string>> => {
  const by = new Map<string, Set<string>>()
  for (const [, name = "", value = ""] of shown.matchAll(/@(k\d+f\w*) ([^;]*) ;/g))
    by.set(name, (by.get(name) ?? new Set()).add(value.replaceAll(/\s+/g, "")))
  return by
}

const isRecord = (value: unknown): value is Readonly<Record<string, unknown>> =>
  typeof value === "object" && value !== null

/** The text that lines of `stream-json` say, deltas of one kind after another. */
const ofType = (stdout: string, type: string): string =>
  stdout
    .split("\n")
    .filter((line) => line !== "")
    .map((line): unknown => JSON.parse(line))
    .map((event) =>
      isRecord(event) && event["type"] === type && typeof event["text"] === "string" ? event["text"] : ""
    )
    .join("")

const routes = {
  chat_completions: { provider: "custom", path: "/v1", model: "m" },
  anthropic_messages: { provider: "custom", path: "", model: "claude-opus-4-6" },
  codex_responses: { provider: "custom", path: "/v1", model: "gpt-5.1" },
  bedrock_converse: { provider: "bedrock", path: "", model: "amazon.nova-pro-v1:0" }
} as const

const names = ["chat_completions", "anthropic_messages", "codex_responses", "bedrock_converse"] as const

describe("a value that comes in pieces", () => {
  for (const apiMode of names) {
    it.live(`is shown the same wherever it was cut: ${apiMode}`, () =>
      Effect.gen(function* () {
        const { hermes, keep } = yield* machine
        const { model, path, provider } = routes[apiMode]
        const protocol = protocols[apiMode]
        const turn: WireTurn = { thought: text, text, cutText: () => all }
        const server = yield* HttpServer.make(({ body, method, url }, response) => {
          if (method !== "POST") return HttpServer.json(response, 404, { error: { message: "not here" } })
          const isStreamed =
            apiMode === "bedrock_converse" ? url.endsWith("converse-stream") : JSON.parse(body).stream === true
          return isStreamed ? protocol.stream(turn, response) : HttpServer.json(response, 200, protocol.whole(turn))
        })
        keep(".env", environmentFile)
        keep(
          "config.yaml",
          [
            "display:",
            "  show_reasoning: true",
            "model:",
            `  provider: ${provider}`,
            `  default: ${model}`,
            `  base_url: ${server.url}${path}`,
            `  api_key: ${modelKey}`,
            "  context_length: 2000000",
            ...(provider === "custom" ? [`  api_mode: ${apiMode}`] : []),
            ""
          ].join("\n")
        )
        const run = Effect.fnUntraced(function* (...view: ReadonlyArray<string>) {
          const ran = yield* hermes(["chat", ...view, "-q", "go"])
          assert.strictEqual(ran.code, 0, ran.stderr.slice(-500))
          assert.deepStrictEqual(found(ran.stdout + ran.stderr), [], view.join(" "))
          return ran
        })
        const check = (what: string, shown: string): void => {
          const by = shownOf(shown)
          assert.strictEqual(by.size, values.length, what)
          for (const [name, ways] of by)
            assert.strictEqual(ways.size, 1, `${what}: ${name}: ${Array.from(ways).slice(0, 3).join(" | ")}`)
        }
        const events = (yield* run("--format", "stream-json")).stdout
        const types = Array.from(
          new Set(
            events
              .split("\n")
              .filter((line) => line !== "")
              .map((line) => String(JSON.parse(line).type))
          )
        )
        check(`text of ${types.join()}`, ofType(events, "text"))
        if (apiMode === "chat_completions") {
          check("text", (yield* run("-v")).stdout)
          check("quiet", (yield* run("-Q")).stdout)
        }
      })
    )
  }
})
