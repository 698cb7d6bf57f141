# Deploys a release archive as a CloudFormation stack, so the template of the repository stays the only description of its
# resources. The code and the template are objects of your bucket, under a name with their hash: a new archive updates the stack.

module "archive" {
  source     = "./archive"
  path       = var.archive
  parameters = var.parameters
}

data "aws_s3_bucket" "code" {
  bucket = var.bucket
}

resource "aws_s3_object" "files" {
  for_each = module.archive.files

  bucket = var.bucket
  key    = "${module.archive.prefix}${each.key}"
  source = each.value
}

resource "aws_cloudformation_stack" "this" {
  name         = var.name
  template_url = "https://${data.aws_s3_bucket.code.bucket_regional_domain_name}/${module.archive.prefix}cloudformation.json"
  capabilities = ["CAPABILITY_IAM"]
  parameters = merge(module.archive.parameters, {
    CodeBucket = var.bucket
    CodePrefix = module.archive.prefix
  })
  tags = var.tags

  depends_on = [aws_s3_object.files]
}
