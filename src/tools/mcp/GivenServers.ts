/** The servers that an application names in its code. `Mcp` loads this module when its layer is built. */
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Redacted from "effect/Redacted"
import * as Schema from "effect/Schema"
import { mcpServer } from "../../base/config/ProgramSections.ts"
import { ConfigError } from "../../base/domain/AgentError.ts"
import * as Json from "../../base/domain/Json.ts"
import { findNearest } from "../../base/domain/Similarity.ts"
import * as ChildProcesses from "../../base/platform/ChildProcesses.ts"
import type { Section } from "./ServerConfig.ts"

import type { Server } from "./Mcp.ts"

/** Returns the name of a setting as written in `config.yaml`. */
const toFileKey = (name: string): string => name.replaceAll(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`)

const decodeSection = Schema.decodeUnknownResult(mcpServer, { onExcessProperty: "error" })
/** Names of the settings as written in `config.yaml`. */
const known = Object.keys(mcpServer.to.fields).map(toFileKey)

const readSecrets = (value: unknown): unknown =>
  Json.isFields(value)
    ? Object.fromEntries(
        Object.entries(value).map(([name, one]) => [name, Redacted.isRedacted(one) ? Redacted.value(one) : one])
      )
    : value

const makeRefusal = (place: string, problem: string): ConfigError =>
  new ConfigError({ path: place, message: `${place}: ${problem}` })

/** Reads the settings of one server. */
const readServer = (name: string, server: unknown): Effect.Effect<Section, ConfigError> =>
  Effect.suspend(() => {
    const place = `mcp.${name}`
    if (!Json.isFields(server))
      return Effect.fail(makeRefusal(place, "expected { command, args } of a program, or { url } of an address"))
    const fields: Record<string, unknown> = {}
    for (const [key, value] of Object.entries(server)) {
      const fileKey = toFileKey(key)
      if (value === undefined) continue
      if (!known.includes(fileKey)) {
        const meant = findNearest(fileKey, known)
        return Effect.fail(
          makeRefusal(
            `${place}.${key}`,
            `no such setting of a server${meant === undefined ? "" : `; did you mean ${meant}?`}`
          )
        )
      }
      fields[fileKey] = key === "env" || key === "headers" ? readSecrets(value) : value
    }
    if (fields["command"] === undefined && fields["url"] === undefined)
      return Effect.fail(makeRefusal(place, "has neither a command nor a url: add one of them"))
    const decoded = decodeSection(fields)
    return decoded._tag === "Success"
      ? Effect.succeed(decoded.success)
      : Effect.fail(makeRefusal(place, decoded.failure.message.replace(/\s+/gu, " ")))
  })

/** Creates the layer of the servers; see `Mcp.layer`. */
export const makeLayer = (servers: Readonly<Record<string, Server>>) =>
  Effect.gen(function* () {
    const sections = yield* Effect.forEach(Object.entries(servers), ([name, server]) =>
      Effect.map(readServer(name, server), (section) => [name, section] as const)
    )
    const [{ layer }, client, { fromSection }] = yield* Effect.promise(() =>
      Promise.all([import("./McpServers.ts"), import("./McpSdkClient.ts"), import("./ServerConfig.ts")])
    )
    for (const [name, section] of sections) {
      yield* Effect.mapError(fromSection(name, section), ({ message }) =>
        makeRefusal(`mcp.${name}`, message.slice(message.indexOf(": ") + 2))
      )
    }
    return layer(Object.fromEntries(sections)).pipe(
      Layer.provide(client.layer),
      Layer.provide(ChildProcesses.layerDefault())
    )
  })
