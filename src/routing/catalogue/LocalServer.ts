/**
 * The window that a model server on this machine gives a model, which is often less than what the model could hold.
 *
 * **Details**
 *
 * Asked in this order: llama.cpp (`/v1/props`), Ollama (`/api/show`: `num_ctx` of the model file before the model's maximum),
 * LM Studio (`/api/v0/models`: the loaded instance before the maximum), vLLM and everybody else (`/models`).
 *
 * Source: `hermes-llm.md` §10.1.
 */
import * as Effect from "effect/Effect"
import type { Route } from "../../domain/Route.ts"
import * as ModelList from "./ModelList.ts"
import type { GetJson, PostJson } from "./ModelLists.ts"

type Fields = Readonly<Record<string, unknown>>

const fields = (value: unknown): Fields =>
  // An object that is no list has fields.
  typeof value === "object" && value !== null && !Array.isArray(value) ? value as Fields : {}

const rootOf = (baseUrl: string): string => baseUrl.replace(/\/v1$/, "")

/** llama.cpp: what the server was started with. */
export const ofProps = (body: unknown): number | undefined => {
  const props = fields(body)
  return ModelList.plausible(fields(props["default_generation_settings"])["n_ctx"]) ?? ModelList.plausible(props["n_ctx"])
}

/** Ollama: `num_ctx` of the model's parameters, else its maximum. */
export const ofShow = (body: unknown): number | undefined => {
  const { model_info, parameters } = fields(body)
  const set = typeof parameters === "string" ? /^num_ctx\s+(\d+)/m.exec(parameters)?.[1] : undefined
  const most = Object.entries(fields(model_info)).find(([name]) => name.endsWith(".context_length"))?.[1]
  return ModelList.plausible(set) ?? ModelList.plausible(most)
}

/** LM Studio: what the loaded instance holds, else the model's maximum. */
export const ofStudio = (body: unknown, model: string): number | undefined => {
  const { data } = fields(body)
  const entry = Array.isArray(data) ? fields(data.find((item) => fields(item)["id"] === model)) : {}
  return ModelList.plausible(entry["loaded_context_length"]) ?? ModelList.plausible(entry["max_context_length"])
}

/** Window that a server gives a model, and whether it is Ollama, which has to be told. */
export interface Served {
  readonly tokens: number
  readonly isOllama: boolean
}

const other = (tokens: number): Served => ({ tokens, isOllama: false })

/** Asks a local server; undefined when none of the ways knows. */
export const window = (
  route: Pick<Route, "apiKey" | "baseUrl" | "model">,
  get: GetJson,
  post: PostJson
): Effect.Effect<Served | undefined> =>
  Effect.gen(function*() {
    const { apiKey, baseUrl, model } = route
    if (baseUrl === undefined) return undefined
    const root = rootOf(baseUrl)
    const props = ofProps(yield* get(`${root}/v1/props`, apiKey))
    if (props !== undefined) return other(props)
    const show = ofShow(yield* post(`${root}/api/show`, { model, name: model }))
    if (show !== undefined) return { tokens: show, isOllama: true }
    const studio = ofStudio(yield* get(`${root}/api/v0/models`, apiKey), model)
    if (studio !== undefined) return other(studio)
    const listed = ModelList.find(ModelList.read(yield* get(`${baseUrl}/models`, apiKey)), model)?.window
    return listed === undefined ? undefined : other(listed)
  })
