/**
 * Rules by which trainers accept or drop trajectories in the ShareGPT format. Pure.
 *
 * **Details**
 *
 * - `llama-factory`: after the `system` turn, `human` or `tool` turns and `gpt` turns alternate, and the last is `gpt`.
 *   LLaMA-Factory skips any other row with a warning.
 * - `axolotl`: a row has a `gpt` turn, and no turn is empty. Chat templates refuse the same role twice in a row.
 * - `trl`: a row ends with a `gpt` turn. TRL renames the fields; chat templates refuse the same role twice in a row.
 *
 * **Example** (A row that is dropped)
 *
 * ```ts
 * import { TrainerRules } from "hermes-effect/batch"
 *
 * const turn = (from: "human" | "gpt") => ({ from, value: "…" })
 * console.log(TrainerRules.findProblem([turn("human"), turn("gpt"), turn("gpt")], "llama-factory"))
 * // => turn 3 is gpt, but human or tool is expected
 * ```
 */
import type { Turn } from "./ShareGpt.ts"

/** Trainers with known rules. */
export const trainers = ["llama-factory", "axolotl", "trl"] as const
/** See {@link trainers}. */
export type Trainer = (typeof trainers)[number]

/** Returns the turns after the `system` turn, and the number of the first of them. */
const skipSystem = (turns: ReadonlyArray<Turn>): { readonly rest: ReadonlyArray<Turn>; readonly first: number } =>
  turns[0]?.from === "system" ? { rest: turns.slice(1), first: 2 } : { rest: turns, first: 1 }

/** Finds the first turn that breaks the alternation of questions or results with answers. */
const findUnexpected = (turns: ReadonlyArray<Turn>): string | undefined => {
  const { first, rest } = skipSystem(turns)
  const index = rest.findIndex(({ from }, at) => (at % 2 === 0 ? from !== "human" && from !== "tool" : from !== "gpt"))
  if (index !== -1) {
    const expected = index % 2 === 0 ? "human or tool" : "gpt"
    return `turn ${index + first} is ${rest[index]?.from ?? ""}, but ${expected} is expected`
  }
  return rest.length % 2 === 0 ? undefined : `the last turn is ${rest.at(-1)?.from ?? ""}, but gpt is expected`
}

/** Finds two turns of the same role in a row. */
const findRepeated = (turns: ReadonlyArray<Turn>): string | undefined => {
  const index = turns.findIndex(({ from }, at) => at > 0 && turns[at - 1]?.from === from)
  return index === -1 ? undefined : `turns ${index} and ${index + 1} are both ${turns[index]?.from ?? ""}`
}

const findEmpty = (turns: ReadonlyArray<Turn>): string | undefined => {
  const index = turns.findIndex(({ value }) => value.trim() === "")
  return index === -1 ? undefined : `turn ${index + 1} (${turns[index]?.from ?? ""}) is empty`
}

/** Returns the reason why a trainer drops or refuses a row, or `undefined` if it accepts the row. */
export const findProblem = (turns: ReadonlyArray<Turn>, trainer: Trainer): string | undefined => {
  if (turns.length === 0) return "it has no turns"
  if (turns.every(({ from }) => from !== "gpt")) return "it has no gpt turn to train on"
  switch (trainer) {
    case "llama-factory":
      return findUnexpected(turns)
    case "axolotl":
      return findEmpty(turns) ?? findRepeated(turns)
    case "trl":
      return (
        findRepeated(turns) ??
        (turns.at(-1)?.from === "gpt" ? undefined : `the last turn is ${turns.at(-1)?.from ?? ""}, but gpt is expected`)
      )
  }
}

/** Returns the settings with which a trainer reads the file. */
export const describeSettings = (trainer: Trainer, file: string): string => {
  switch (trainer) {
    case "llama-factory":
      return `dataset_info.json: ${JSON.stringify({
        trajectories: {
          file_name: file,
          formatting: "sharegpt",
          columns: { messages: "conversations" },
          tags: { observation_tag: "tool" }
        }
      })}`
    case "axolotl":
      return (
        `datasets: [{path: ${file}, type: chat_template, field_messages: conversations, ` +
        "message_property_mappings: {role: from, content: value}}]"
      )
    case "trl":
      return `load_dataset("json", data_files="${file}"), with the column "conversations" alone`
  }
}
