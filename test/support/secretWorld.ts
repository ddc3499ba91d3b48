// A user whose program holds a key of each selected kind, with a plugin and a model of the test's own making.
import * as Effect from "effect/Effect"
import { assert } from "@effect/vitest"
import type { ServerResponse } from "node:http"
import * as HttpServer from "../models/provider/HttpServer.ts"
import { machine } from "./hermes.ts"
import { selectedKeys } from "./plantedKeys.ts"
import { found, foundInFiles } from "./secretSearch.ts"
import { protocols, type WireCall, type WireTurn } from "./wireModel.ts"

/** A request to the model, as far as its answer depends on it. */
export interface Asked {
  readonly messages: ReadonlyArray<{ readonly role: string; readonly content: unknown }>
  readonly stream?: boolean
  readonly tools?: ReadonlyArray<unknown>
}

/** A call of a tool as a model makes it. */
export const call = (id: string, name: string, args: object): WireCall => ({ id, name, args: JSON.stringify(args) })

/** The value of the first selected kind: the model's own key. */
export const modelKey = selectedKeys[0]?.[1] ?? ""

/** Lines of `.env` with every selected value. */
export const environmentFile = selectedKeys.map(([, value], at) => `PLANTED_${at}_TOKEN='${value}'\n`).join("")

/** Files that the user, the test or the setting up wrote: they hold the values and are no sink. */
export const userFiles = /\/config\.yaml$|\/\.env$|\/planted\/|\/plugins\/planted\/|\/scripts\//

/** A request to the model without the words of the model itself. */
export const withoutAnswers = (body: string): string => {
  const { messages, ...rest } = JSON.parse(body) as Asked
  return JSON.stringify({ ...rest, messages: messages.filter(({ role }) => role !== "assistant") })
}

/** A home directory with every selected value in its `.env`, and a model that answers as `turnOf` says. */
export const user = (options: {
  readonly turnOf: (asked: Asked, body: string) => WireTurn
  readonly settings?: ReadonlyArray<string>
  readonly plugin?: (planted: (name: string) => string) => string
  readonly refuse?: (response: ServerResponse) => unknown
}) =>
  Effect.gen(function* () {
    const made = yield* machine
    const sent: Array<string> = []
    const server = yield* HttpServer.make(({ body, url }, response) => {
      const refused = options.refuse?.(response)
      if (refused !== undefined && refused !== false) return refused
      if (!url.endsWith("/chat/completions")) return HttpServer.json(response, 404, { error: { message: "not here" } })
      sent.push(body)
      const asked = JSON.parse(body) as Asked
      const turn = options.turnOf(asked, body)
      if (asked.stream === true) protocols.chat_completions.stream(turn, response)
      else HttpServer.json(response, 200, protocols.chat_completions.whole(turn))
    })
    made.keep(".env", environmentFile)
    made.keep(
      "config.yaml",
      [
        "model:",
        "  provider: custom",
        "  default: m",
        `  base_url: ${server.url}/v1`,
        `  api_key: ${modelKey}`,
        "  context_length: 2000000",
        "network:",
        "  stream_retries: 0",
        ...(options.plugin === undefined ? [] : ["plugins:", "  enabled: [planted]"]),
        ...(options.settings ?? []),
        ""
      ].join("\n")
    )
    if (options.plugin !== undefined) {
      made.keep("plugins/planted/plugin.yaml", "name: planted\n")
      made.keep(
        "plugins/planted/index.js",
        options.plugin((name) => made.at(`planted/${name}`))
      )
    }
    const leaks: Array<string> = []
    return {
      ...made,
      sent,
      server,
      /** Searches what a sink got; an empty one proves nothing. */
      search: (sink: string, text: string): void => {
        assert.isAbove(text.length, 0, `${sink} is empty`)
        leaks.push(...found(text).map((one) => `${sink}: ${one}`))
      },
      /** Searches every file that the program wrote. */
      searchFiles: (): void => void leaks.push(...foundInFiles([made.home, made.cwd], userFiles)),
      leaks: (): ReadonlyArray<string> => Array.from(new Set(leaks))
    }
  })
