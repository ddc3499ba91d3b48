/** Tools that read, write, change and search files, and the state that they share. */
export * as Files from "../../../tools/builtin/Files.ts"
export * as FileState from "../../../tools/builtin/file/FileState.ts"
export * as Places from "../../../tools/builtin/file/Places.ts"
export * as FileUndo from "../../../tools/FileUndo.ts"
