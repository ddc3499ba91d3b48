/** Tools that read, write, change and search files, and the state that they share. */
export * as Files from "../../tool/builtin/Files.ts"
export * as FileState from "../../tool/builtin/file/FileState.ts"
export * as Places from "../../tool/builtin/file/Places.ts"
export * as FileUndo from "../../tool/FileUndo.ts"
