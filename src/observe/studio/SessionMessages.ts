/**
 * The conversation of a session for display: its messages with their origin, calls with the files that they changed,
 * results with their outcome, and images with their addresses.
 */
import * as Option from "effect/Option"
import type * as Prompt from "effect/ai/Prompt"
import * as FileChange from "../../base/domain/FileChange.ts"
import * as Json from "../../base/domain/Json.ts"
import * as ToolView from "../../base/domain/ToolView.ts"
import { toOutputText } from "../atif/RunContent.ts"
import { toFields, toNonEmptyText } from "../atif/Value.ts"
import type { Call, Run, Tree } from "../RunTree.ts"
import { describeToolEnding } from "../trace/ToolEnding.ts"
import type { FileDiff, Message, Part } from "./StudioApi.ts"

/** An image in a conversation. */
export interface Image {
  readonly mediaType: string
  readonly bytes: Uint8Array
}

/** Types of images that browsers can show and that cannot contain scripts. */
const imageTypes: ReadonlySet<string> = new Set([
  "image/png",
  "image/jpeg",
  "image/gif",
  "image/webp",
  "image/avif",
  "image/bmp"
])

const isImage = ({ mediaType }: Prompt.FilePart): boolean => mediaType.startsWith("image/")

/** Lists the files of a message in order: first its own files, then the files in its tool results. */
const listFiles = ({ content }: Prompt.Message): ReadonlyArray<Prompt.FilePart> =>
  typeof content === "string"
    ? []
    : content.flatMap((part): ReadonlyArray<Prompt.FilePart> => {
        if (part.type === "file") return [part]
        return part.type === "tool-result" ? (part.modelOutput ?? []).filter((one) => one.type === "file") : []
      })

/**
 * Parses the name of an image in its address: the position of its message, and its index among the files of the
 * message.
 */
export const parseImagePlace = (name: string): { readonly position: number; readonly index: number } | undefined => {
  const [, position, index] = /^(\d{1,9})-(\d{1,5})$/u.exec(name) ?? []
  return position === undefined ? undefined : { position: Number(position), index: Number(index) }
}

/** Returns an image of a message, or `undefined` if it does not exist or must not be served. */
export const findImage = (message: Prompt.Message, index: number): Image | undefined => {
  const file = listFiles(message)[index]
  if (file === undefined || file.data instanceof URL || !imageTypes.has(file.mediaType)) return undefined
  if (typeof file.data !== "string") return { mediaType: file.mediaType, bytes: file.data }
  const base64 = /^data:[^,]*;base64,/u.exec(file.data)?.[0] ?? ""
  try {
    return {
      mediaType: file.mediaType,
      bytes: Uint8Array.from(atob(file.data.slice(base64.length)), (letter) => letter.charCodeAt(0))
    }
  } catch {
    // The data is not base64, so there is no image.
    return undefined
  }
}

const toFilePart = (sessionId: string, position: number | undefined, file: Prompt.FilePart, index: number): Part => {
  const { data, fileName, mediaType } = file
  if (!isImage(file)) return { type: "file", mediaType, name: fileName }
  if (data instanceof URL) return { type: "image", mediaType, url: data.href, local: false }
  if (position === undefined || !imageTypes.has(mediaType)) return { type: "file", mediaType, name: fileName }
  return {
    type: "image",
    mediaType,
    url: `/api/sessions/${encodeURIComponent(sessionId)}/images/${position}-${index}`,
    local: true
  }
}

/** Splits a unified diff into its files. */
const splitDiff = (diff: string): ReadonlyArray<FileDiff> =>
  diff.split(/^(?=--- )/mu).flatMap((part) => {
    const [, before = "", after = "", body = ""] = /^--- (.*)\n\+\+\+ (.*)\n([\s\S]*)$/u.exec(part) ?? []
    const path = (after === "/dev/null" ? before : after).replace(/^[ab]\//u, "")
    return path === "" ? [] : [{ path, text: body }]
  })

/** Lists the recorded file changes of a call and of the calls that its tool made. */
const listRecordedChanges = ({ calls, changes }: Call): ReadonlyArray<FileDiff> => [
  ...changes.map(({ diff, path }) => ({
    path: FileChange.readFileName({ diff, path }),
    text: diff.replace(/^--- .*\n\+\+\+ .*\n/u, "")
  })),
  ...calls.flatMap(listRecordedChanges)
]

/**
 * Lists the recorded changes of a call. If no changes were recorded, derives them, because older records do not contain
 * changes.
 */
const listChangesOr = (call: Call | undefined, otherwise: () => ReadonlyArray<FileDiff>): ReadonlyArray<FileDiff> => {
  const found = call === undefined ? [] : listRecordedChanges(call)
  return found.length > 0 ? found : otherwise()
}

/** Derives the file changes of a call from its arguments and its result. */
const deriveDiffs = (
  { name, params }: Prompt.ToolCallPart,
  result: string,
  status: string
): ReadonlyArray<FileDiff> => {
  if (status !== "ok") return []
  const given = toFields(params)
  if (name === "patch")
    return splitDiff(toNonEmptyText(toFields(Option.getOrUndefined(Json.parse(result)))["diff"]) ?? "")
  const [path, content] = [toNonEmptyText(given["path"]), toNonEmptyText(given["content"])]
  if (name !== "write_file" || path === undefined || content === undefined) return []
  const lines = content === "" ? [] : content.replace(/\n$/u, "").split("\n")
  return [
    {
      path,
      text: `@@ -0,0 +${lines.length === 0 ? 0 : 1},${lines.length} @@\n${lines.map((line) => `+${line}\n`).join("")}`
    }
  ]
}

const formatIndented = (value: unknown): string =>
  typeof value === "string"
    ? value
    : Option.getOrElse(Option.liftThrowable(() => JSON.stringify(value, null, 2) ?? "")(), () => Json.toText(value))

/** Indexes the calls of runs by id. If an id occurs several times, the last call is used. */
const indexCalls = (runs: ReadonlyArray<Run>): ReadonlyMap<string, Call> =>
  new Map(runs.flatMap(({ steps }) => steps.flatMap(({ calls }) => calls.map((call) => [call.id, call] as const))))

/** Returns the text of a result as the model received it. */
const readResultText = ({ modelOutput, result }: Prompt.ToolResultPart): string => {
  const texts = (modelOutput ?? []).flatMap((part) => (part.type === "text" ? [part.text] : []))
  return texts.length > 0 ? texts.join("\n") : toOutputText(result)
}

const describeEnding = (call: Call | undefined, part: Prompt.ToolResultPart | undefined): string => {
  if (call?.end === undefined) return part === undefined ? "open" : part.isFailure ? "error" : "ok"
  return describeToolEnding(call.end.status, part === undefined ? "" : toOutputText(part.result), undefined).status
}

const toParts = (
  sessionId: string,
  calls: ReadonlyMap<string, Call>,
  message: Prompt.Message,
  position: number | undefined
): ReadonlyArray<Part> => {
  if (typeof message.content === "string") return [{ type: "text", text: message.content }]
  let files = 0
  return message.content.flatMap((part): ReadonlyArray<Part> => {
    switch (part.type) {
      case "text":
      case "reasoning":
        return part.text === "" ? [] : [{ type: part.type, text: part.text }]
      case "file":
        return [toFilePart(sessionId, position, part, files++)]
      case "tool-call": {
        const call = calls.get(part.id)
        const result = call?.result === undefined ? "" : toOutputText(call.result.result)
        return [
          {
            type: "call",
            id: part.id,
            name: part.name,
            args: formatIndented(part.params),
            children: call?.children.map(({ start }) => start.sessionId) ?? [],
            diffs: listChangesOr(call, () => deriveDiffs(part, result, describeEnding(call, call?.result)))
          }
        ]
      }
      case "tool-result": {
        const call = calls.get(part.id)
        const own = (part.modelOutput ?? []).flatMap((one) => (one.type === "file" ? [one] : []))
        const images = own.map((one) => toFilePart(sessionId, position, one, files++))
        const ended = call?.end?.status ?? (part.isFailure ? "error" : "ok")
        const pictures = own.filter(isImage).map(({ fileName, mediaType }) => ({ mediaType, name: fileName }))
        return [
          {
            type: "result",
            id: part.id,
            name: part.name,
            text: readResultText(part),
            status: describeEnding(call, part),
            duration: call?.end?.ran === true ? call.end.durationMillis : undefined,
            view: ToolView.toWire(ToolView.presentResult(part.name, ended, readResultText(part), pictures))
          },
          ...images
        ]
      }
      default:
        return []
    }
  })
}

const isBroken = ({ options }: Prompt.Message): boolean =>
  toFields(toFields(options)["hermes-effect"])["broken_off"] === true

/**
 * Builds the list of messages of a session, in order. The system prompt is first, and incomplete answers of interrupted
 * runs are included.
 */
export const buildConversation = (tree: Tree, sessionId: string, systemPrompt: string): ReadonlyArray<Message> => {
  const runs = tree.roots.filter((run) => run.sessionId === sessionId)
  const calls = indexCalls(runs)
  const findRun = new Map(runs.flatMap(({ messages, turnId }) => messages.map((message) => [message, turnId] as const)))
  const findStep = new Map(
    runs.flatMap(({ steps }) =>
      steps.flatMap((step) => (step.message === undefined ? [] : [[step.message, step] as const]))
    )
  )
  const stored = tree.conversation(sessionId).flatMap((one): ReadonlyArray<Message> => {
    const { at, message, origin, position } = one
    if (message === undefined) return []
    const answered = findStep.get(one)?.attempts.findLast(({ end }) => end !== undefined)
    return [
      {
        role: message.role,
        origin,
        position,
        run: findRun.get(one),
        at: at > 0 ? at : undefined,
        model: answered?.end?.model ?? answered?.start.route.model,
        ...(isBroken(message) ? { partial: true } : {}),
        parts: toParts(sessionId, calls, message, position)
      }
    ]
  })
  const cut = runs.flatMap(({ steps, turnId }) =>
    steps.flatMap((step): ReadonlyArray<Message> => {
      const attempt =
        step.message === undefined
          ? step.attempts.findLast(({ end }) => end !== undefined && end.answer.length > 0)
          : undefined
      const { answer = [], model } = attempt?.end ?? {}
      const parts = answer.flatMap((part): ReadonlyArray<Part> =>
        part.type === "text" || part.type === "reasoning" ? [part] : []
      )
      return attempt === undefined || parts.length === 0
        ? []
        : [
            {
              role: "assistant",
              origin: "model",
              run: turnId,
              at: attempt.endedAt,
              model: model ?? attempt.start.route.model,
              partial: true,
              parts
            }
          ]
    })
  )
  const all = cut.reduce((messages: ReadonlyArray<Message>, one) => {
    const behind = messages.findLastIndex(({ at = 0, run }) => run === one.run && at <= (one.at ?? Infinity))
    return behind === -1 ? [...messages, one] : messages.toSpliced(behind + 1, 0, one)
  }, stored)
  return systemPrompt === ""
    ? all
    : [{ role: "system", origin: "runtime", parts: [{ type: "text", text: systemPrompt }] }, ...all]
}
