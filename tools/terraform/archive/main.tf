# Reads a release archive. Needs no provider, so a test applies it without an account.

variable "path" {
  description = "Folder of an unpacked release archive."
  type        = string
}

variable "parameters" {
  description = "Parameters of the template by name."
  type        = map(string)
}

locals {
  template = jsondecode(file("${var.path}/cloudformation.json"))
  # The module sets them.
  own   = ["CodeBucket", "CodePrefix"]
  names = setsubtract(keys(local.template.Parameters), local.own)
  # The zip files and the template.
  files = { for name in fileset(var.path, "*.{zip,json}") : name => "${var.path}/${name}" }
  hash  = sha256(join(" ", [for name in sort(keys(local.files)) : filesha256(local.files[name])]))
}

output "files" {
  description = "Paths of the files to upload, by name."
  value       = local.files
}

output "names" {
  description = "Names of the parameters that can be set."
  value       = local.names
}

output "parameters" {
  description = "Parameters, with checked names."
  value       = var.parameters

  precondition {
    condition     = length(setsubtract(keys(var.parameters), local.names)) == 0
    error_message = "The template has no parameter ${join(", ", setsubtract(keys(var.parameters), local.names))}."
  }
}

output "prefix" {
  description = "Text before the names of the objects, with the hash of their content."
  value       = "version-control/${substr(local.hash, 0, 16)}/"
}
